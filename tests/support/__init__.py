"""What tests share: databases, servers, waiting for a condition. No assertions here."""
