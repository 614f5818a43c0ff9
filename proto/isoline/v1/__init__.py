"""The Isoline protocol. ``isoline.v1`` holds the generated code of ``proto/isoline/v1``; nothing here is written by hand."""
