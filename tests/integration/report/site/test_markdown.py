from __future__ import annotations

import re

from harness.report.site.pages import markdown
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
    assert (
        markdown(TEXT)
        == """<h1>A <code>b</code> c</h1>
<p>one
two</p>
<ul>
<li>first
goes on</li>
<li>second</li>
</ul>
<div class="scroll"><table>
<thead>
<tr>
<th>a</th>
<th style="text-align:right">b</th>
</tr>
</thead>
<tbody>
<tr>
<td><code>x</code></td>
<td style="text-align:right"></td>
</tr>
</tbody>
</table></div>
<h2>Next</h2>
<p>&lt;b&gt;no&lt;/b&gt; [link](javascript:alert)</p>
"""
    )


def test_links_and_pictures_leave_their_words() -> None:
    assert markdown("![<b>words</b>](x.png) [`a` link](b.md)") == (
        "<p>&lt;b&gt;words&lt;/b&gt; <code>a</code> link</p>\n"
    )


def test_the_page_that_is_there_has_its_tables() -> None:
    kinds = re.findall(r"<(h1|p|table)>", markdown(MUTATION.read_text()))
    assert kinds[:2] == ["h1", "p"]
    assert kinds.count("table") > 3
