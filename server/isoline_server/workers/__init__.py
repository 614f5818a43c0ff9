"""What runs in the background of a server. Loops only: what they do are operations."""
