"""No block of code on a page that people follow is left untried: each one has a test that runs it or compares it."""

import ast
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.docs.pages import GUIDES, ROOT, Block, blocks

FOLLOWED = [ROOT / "README.md", *sorted(GUIDES.glob("*.md"))]
PROGRAMS = ("bash", "python", "javascript", "php", "http")
SAMPLES = ("json", "ndjson", "csv")  # what is answered, compared with what really is
# What can only be run on a machine that nothing is lost with.
UNTRIED = {("README.md", "sudo apt-get install -y make python3-venv curl\n")}


class Trial(NamedTuple):
    """Which blocks a test tries: those of a page, in these languages, in which this text stands."""

    page: str
    languages: str
    holding: str
    test: str


CALLS = "docs/test_examples.py::test_a_pages_calls_work_when_pasted_and_answer_what_it_shows"
COMMANDS = "docs/test_commands.py::test_an_operators_commands_work_as_they_stand"
FIRST_PROGRAMS = "docs/test_examples.py::test_the_first_programs_list_every_product"
MADE = "docs/test_commands.py::test_what_is_to_be_made_can_be_made"
VERIFYING = "webhooks/test_guide.py::test_the_guides_program_knows_genuine_from_forged"
TRIALS = [
    Trial("README.md", "bash", "make ", MADE),
    Trial("README.md", "bash", "curl -s", CALLS),
    Trial("README.md", "json", "", CALLS),
    Trial("README.md", "python", "", "client/test_guide.py::test_the_readme_lists_every_product_in_six_lines"),
    Trial("authentication.md", "bash", "curl -s", CALLS),
    Trial("authentication.md", "json", "", CALLS),
    Trial("authentication.md", "bash", "stoa ", COMMANDS),
    Trial("customers.md", "http json csv", "", "customers/test_guide.py::test_every_example_of_the_guide_is_true"),
    Trial("customers.md", "bash", "stoa ", COMMANDS),
    Trial("duplicates.md", "http json", "", "orders/test_guide.py::test_every_example_is_true"),
    Trial(
        "errors.md",
        "json",
        "",
        "docs/test_examples.py::test_the_problem_on_the_page_about_errors_is_what_is_answered",
    ),
    Trial("idempotency.md", "bash", "", "docs/test_examples.py::test_the_two_tries_of_one_write_have_one_effect"),
    Trial("imports.md", "http json ndjson csv", "", "imports/test_guide.py::test_every_example_of_the_guide_is_true"),
    Trial("imports.md", "bash", "stoa ", COMMANDS),
    Trial("inventory.md", "http json", "", "inventory/test_guide.py::test_every_example_of_the_guide_is_true"),
    Trial("order-lifecycle.md", "http json", "", "orders/test_guide.py::test_every_example_is_true"),
    Trial(
        "pagination-and-sync.md",
        "json",
        "",
        "docs/test_examples.py::test_the_page_about_lists_shows_what_a_page_tells_of_itself",
    ),
    Trial(
        "pagination-and-sync.md",
        "python",
        "",
        "docs/test_examples.py::test_the_recipe_for_a_copy_in_step_fills_it_and_has_nothing_to_add_the_second_time",
    ),
    Trial("products.md", "http json", "", "products/test_guide.py::test_every_example_of_the_guide_is_true"),
    Trial("python-sdk.md", "python", "", "client/test_guide.py::test_the_guide_runs_from_top_to_bottom"),
    Trial(
        "python-sdk.md",
        "bash",
        "generate",
        "docs/test_commands.py::test_the_commands_that_generate_clients_generate_them",
    ),
    Trial("quickstart.md", "bash", "make ", MADE),
    Trial("quickstart.md", "bash", "curl -s", CALLS),
    Trial("quickstart.md", "bash", "source ", CALLS),
    Trial("quickstart.md", "json", "", CALLS),
    Trial("quickstart.md", "python javascript", "", FIRST_PROGRAMS),
    Trial(
        "webhooks.md",
        "http json",
        "",
        "webhooks/test_guide.py::test_every_call_of_the_guide_is_answered_as_it_shows",
    ),
    Trial("webhooks.md", "javascript php", "", VERIFYING),
    Trial("webhooks.md", "bash", "openssl", VERIFYING),
    Trial("webhooks.md", "python", "def verify(", VERIFYING),
    Trial(
        "webhooks.md",
        "python",
        "def follow(",
        "webhooks/test_guide.py::test_the_guides_loop_brings_every_event_of_the_feed",
    ),
    Trial(
        "webhooks.md",
        "bash",
        "stoa listen ",
        "docs/test_commands.py::test_the_command_that_listens_brings_events_to_a_program_here",
    ),
]
EVERY_BLOCK = [
    pytest.param(page.name, block, id=f"{page.name}-{place}")
    for page in FOLLOWED
    for place, block in enumerate(blocks(page, *PROGRAMS, *SAMPLES), 1)
]


@pytest.mark.parametrize(("page", "block"), EVERY_BLOCK)
def test_a_block_of_code_has_a_test_that_tries_it(page: str, block: Block) -> None:
    if (page, block.text) not in UNTRIED:
        tries = [each for each in TRIALS if each.page == page and block.language in each.languages.split()]
        assert any(each.holding in block.text for each in tries), f"nothing tries:\n{block.text}"


@pytest.mark.parametrize("page", FOLLOWED, ids=lambda page: page.name)
def test_every_block_says_what_it_is(page: Path) -> None:
    """A language that no test knows would be a way around this file."""
    fences = [line.strip() for line in page.read_text().splitlines() if line.strip().startswith("```")]
    assert {fence.removeprefix("```") for fence in fences[::2]} <= {*PROGRAMS, *SAMPLES}
    assert len(fences) == 2 * len(blocks(page, *PROGRAMS, *SAMPLES))


@pytest.mark.parametrize("trial", TRIALS, ids=lambda trial: f"{trial.page}-{trial.languages}-{trial.holding}")
def test_what_tries_a_block_exists_and_reads_that_page(trial: Trial) -> None:
    (page,) = [each for each in FOLLOWED if each.name == trial.page]
    for language in trial.languages.split():
        assert any(trial.holding in block.text for block in blocks(page, language)), "there is no such block any more"
    file, _, name = trial.test.partition("::")
    text = (ROOT / "tests" / file).read_text()
    functions = {
        node.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert name in functions
    assert trial.page in text
