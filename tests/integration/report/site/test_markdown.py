from __future__ import annotations

from harness.report.site.markdown import Block, blocks, spans
from tests.integration.report.site.conftest import MUTATION

TEXT = """# A `b` c
one
two

- first
  goes on
- second

| a | b |
| --- | ---: |
| `x` |  |
## Next
<b>no</b> [link](javascript:alert)
"""


def test_the_blocks_of_a_text() -> None:
    plain = ((False, "a"),)
    assert blocks(TEXT) == (
        Block("heading1", ((((False, "A "), (True, "b"), (False, " c")),),)),
        Block("paragraph", ((((False, "one two"),),),)),
        Block("list", ((((False, "first\n  goes on\n"),),), (((False, "second"),),))),
        Block("table", ((plain, ((False, "b"),)), (((True, "x"),), ()))),
        Block("heading2", ((((False, "Next"),),),)),
        Block("paragraph", ((((False, "<b>no</b> link"),),),)),
    )


def test_a_picture_leaves_its_words() -> None:
    assert spans("![words](x.png)") == ((False, "words"),)


def test_the_page_that_is_there_has_its_tables() -> None:
    kinds = [block.kind for block in blocks(MUTATION.read_text())]
    assert kinds[:2] == ["heading1", "paragraph"]
    assert kinds.count("table") > 3
