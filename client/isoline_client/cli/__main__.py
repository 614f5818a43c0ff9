"""``python -m isoline_client.cli``: the program, where the console script is not at hand."""

from isoline_client.cli import main

main()
