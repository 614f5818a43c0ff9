"""docs/guard.md says what the tests show."""

import re
from pathlib import Path

from guard.ways import WAYS

PAGE = Path(__file__).parents[2] / "docs" / "guard.md"
ROW = re.compile(r"\| `(\w+)` \| (yes|no) \| (yes|no) \| yes \|")


def test_the_table_of_the_page_is_the_one_that_is_tested():
    shown = {name: (seams == "yes", hooks == "yes") for name, seams, hooks in ROW.findall(PAGE.read_text())}

    assert shown == {way.name: (way.seams, way.hooks) for way in WAYS.values()}
