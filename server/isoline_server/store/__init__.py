"""All SQL lives here and nowhere else: tables, statements, engines, the retry law, migrations."""
