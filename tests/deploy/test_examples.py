"""The example configurations are ones that a server takes."""

from pathlib import Path

import pytest

from isoline_server.config import load_settings

DEPLOY = Path(__file__).parents[2] / "deploy"


@pytest.mark.parametrize("path", sorted(DEPLOY.glob("*.example.toml")), ids=lambda path: path.name)
def test_an_example_configuration_is_valid(path: Path) -> None:
    assert load_settings(path).homes == ("ap", "eu", "us")
