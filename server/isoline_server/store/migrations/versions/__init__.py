"""The revisions, in order. A new one: copy the newest file, count up, write one statement; then ``tests/store`` says what it misses."""
