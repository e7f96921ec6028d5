"""The tutorial's test sees a page's steps, and an output that is not the page's."""

from __future__ import annotations

import pytest
from support.console_page import INTERRUPT, Command, File, Reader, on_the_screen, steps

PAGE = """
Save it as `desk.py`:

```python
app = 1
```

```yaml
not: a step
```

```console first terminal
$ tidegate dev
...
ready
^C
```

```console
$ A=1
$ show evt_1
evt_1 at 2026-11-23T20:27:15Z
```
"""
SHOWN = "process 17 calls idk_a\n...\nprocess 18 calls idk_a at 2026-11-23 20:27:15Z\n"


def test_a_pages_steps_are_its_files_and_commands_in_order() -> None:
    assert list(steps(PAGE)) == [
        File("desk.py", "app = 1\n"),
        Command("first terminal", "tidegate dev", "...\nready\n"),
        Command("first terminal", INTERRUPT, None),
        Command("", "A=1", None),
        Command("", "show evt_1", "evt_1 at 2026-11-23T20:27:15Z\n"),
    ]


@pytest.mark.parametrize(
    ("printed", "agrees"),
    [
        ("process 5 calls idk_b\nprocess 6 calls idk_b at 2027-01-01 00:00:00Z\n", True),
        ("process 5 calls idk_b  \nx\ny\nprocess 6 calls idk_b at 2027-01-01 00:00:00Z\n", True),
        ("process 5 calls idk_b\nprocess 6 calls idk_c at 2027-01-01 00:00:00Z\n", False),
        ("process 5 calls idk_b\nprocess 6 calls idk_b at noon\n", False),
        ("process 5 calls idk_b\nprocess 6 calls idk_b at 2027-01-01 00:00:00Z\nmore\n", False),
        ("process 5 called idk_b\nprocess 6 calls idk_b at 2027-01-01 00:00:00Z\n", False),
        ("", False),
    ],
)
def test_times_and_ids_may_differ_and_nothing_else(printed: str, agrees: bool) -> None:
    assert Reader().agrees(SHOWN, printed) == agrees


def test_what_was_printed_is_copied_into_later_commands_and_outputs() -> None:
    reader = Reader()
    assert reader.agrees("process 17 calls idk_a\n", "process 5 calls idk_b\n")
    assert reader.command("kill -9 17; show idk_a") == "kill -9 5; show idk_b"
    assert not reader.agrees("idk_a\n", "idk_c\n")
    assert reader.agrees("idk_a\n", "idk_b\n")


def test_a_block_of_output_alone_waits_for_its_terminal() -> None:
    page = "```console first terminal\n...\nworker-0 restarted in 1.4 s\n```\n"
    shown = "...\nworker-0 restarted in 1.4 s\n"
    assert list(steps(page)) == [Command("first terminal", "", shown)]
    printed = "ready\nworker-0 restarted in 0.9 s\nmore\n"
    assert Reader().agrees(shown, printed, so_far=True)


def test_a_view_that_changed_in_place_is_what_was_drawn_last() -> None:
    erased = "\r\x1b[2K" + "\x1b[1A\x1b[2K" * 2
    printed = f"sent\n\x1b[?25lrunning\nattempt 1\nstep{erased}succeeded\n\x1b[?25h"
    assert on_the_screen(printed) == "sent\nsucceeded\n"
