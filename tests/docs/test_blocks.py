"""Every code block in the README and the guides has a test that runs it or compares it."""

import ast
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.docs.pages import GUIDES, ROOT, Block, blocks

PAGES = [ROOT / "README.md", *sorted(GUIDES.glob("*.md"))]
PROGRAMS = ("bash", "python", "javascript", "typescript", "php", "http")
SAMPLES = ("json", "ndjson", "csv", "toml", "text")  # compared with real responses and output
# These commands change the machine they run on.
UNTESTED = {("README.md", "sudo apt-get install -y make python3-venv curl\n")}


class Coverage(NamedTuple):
    """The blocks that a test covers: those of a page, in these languages, that contain this text."""

    page: str
    languages: str
    containing: str
    test: str


CALLS = "docs/test_examples.py::test_pasted_commands_return_the_shown_responses"
COMMANDS = "docs/test_commands.py::test_operator_commands_run_as_written"
FIRST_PROGRAMS = "docs/test_examples.py::test_the_quickstart_programs_list_every_product"
MAKE = "docs/test_commands.py::test_every_make_command_has_a_target"
VERIFYING = "webhooks/test_guide.py::test_a_verification_program_rejects_forgeries"
BUILDING = "docs/test_build_an_app.py::test_the_app_receives_a_verified_webhook_and_refuses_a_forgery"
FILES = "docs/test_app_file.py::test_the_app_of_a_file_receives_a_verified_webhook_and_refuses_a_forgery"
COVERED = [
    Coverage("app-file.md", "bash", "make ", MAKE),
    *(
        Coverage("app-file.md", "bash", text, FILES)
        for text in ("stoa app ", "STOA_DEPLOY_TOKEN", "app.py", "npm ", "curl -s")
    ),
    Coverage("app-file.md", "toml", "", "docs/test_app_file.py::test_the_shown_file_is_valid_and_has_every_key"),
    Coverage(
        "app-file.md", "text", "", "docs/test_app_file.py::test_the_shown_fault_is_the_one_that_the_command_prints"
    ),
    Coverage("agents.md", "json", "", "mcp/test_agent.py::test_an_agent_reads_and_tries_but_does_not_write"),
    Coverage("agents.md", "bash", "stoa ", "mcp/test_agent.py::test_an_agent_writes_over_http_if_it_is_allowed"),
    Coverage("README.md", "bash", "make ", MAKE),
    Coverage("README.md", "bash", "curl -s", CALLS),
    Coverage("README.md", "json", "", CALLS),
    Coverage("README.md", "python", "", "client/test_guide.py::test_the_readme_lists_every_product_in_six_lines"),
    Coverage("authentication.md", "bash", "curl -s", CALLS),
    Coverage("authentication.md", "json", "", CALLS),
    Coverage("authentication.md", "bash", "stoa ", COMMANDS),
    Coverage("build-an-app.md", "bash", "make ", MAKE),
    *(Coverage("build-an-app.md", "bash", text, BUILDING) for text in ("stock-app", "install", "sync", "curl -s")),
    Coverage(
        "build-an-app.md",
        "python typescript",
        "",
        "docs/test_build_an_app.py::test_the_shown_parts_are_the_whole_program",
    ),
    Coverage("customers.md", "http json csv", "", "customers/test_guide.py::test_every_example_matches_the_response"),
    Coverage("customers.md", "bash", "stoa ", COMMANDS),
    Coverage("dlt.md", "python", "", "connectors/test_guides.py::test_the_program_of_the_guide_is_the_example"),
    Coverage("exports.md", "bash", "stoa ", COMMANDS),
    Coverage("development-stores.md", "bash", "make ", MAKE),
    Coverage("duplicates.md", "http json", "", "orders/test_guide.py::test_every_example_matches_the_response"),
    Coverage(
        "errors.md",
        "json",
        "",
        "docs/test_examples.py::test_the_example_problem_matches_the_response",
    ),
    Coverage("idempotency.md", "bash", "", "docs/test_examples.py::test_two_attempts_with_one_key_have_one_effect"),
    Coverage(
        "imports.md", "http json ndjson csv", "", "imports/test_guide.py::test_every_example_matches_the_response"
    ),
    Coverage("imports.md", "bash", "stoa ", COMMANDS),
    Coverage(
        "collections.md",
        "bash http json",
        "",
        "products/test_collection_guide.py::test_every_example_matches_the_response",
    ),
    Coverage("metadata.md", "http json", "", "metadata/test_guide.py::test_every_example_matches_the_response"),
    Coverage("metadata.md", "bash", "stoa ", "metadata/test_guide.py::test_every_example_matches_the_response"),
    Coverage("metadata.md", "python", "", "client/test_calls.py::test_typed_metadata_is_filtered_by_ranges"),
    Coverage("money.md", "http json", "", "orders/test_guide.py::test_every_example_matches_the_response"),
    Coverage("moving.md", "python", "", "client/test_moving.py::test_the_guide_prints_what_it_shows"),
    Coverage(
        "moving.md", "bash", "stoa ", "orders/test_import_command.py::test_the_commands_of_the_guide_run_as_written"
    ),
    Coverage("n8n.md", "bash", "npm ", "connectors/test_n8n.py::test_the_guide_installs_what_the_folder_has"),
    Coverage("installing.md", "bash", "stoa ", COMMANDS),
    Coverage("installing.md", "bash", "curl -s", CALLS),
    Coverage("installing.md", "json", '"installed_at"', CALLS),
    Coverage(
        "installing.md", "json", '"evt_', "webhooks/test_install_guide.py::test_the_example_event_has_the_real_form"
    ),
    Coverage(
        "installing.md", "python", "", "webhooks/test_install_guide.py::test_the_program_accepts_only_genuine_returns"
    ),
    Coverage("inventory.md", "http json", "", "inventory/test_guide.py::test_every_example_matches_the_response"),
    Coverage("order-lifecycle.md", "http json", "", "orders/test_guide.py::test_every_example_matches_the_response"),
    Coverage(
        "pagination-and-sync.md",
        "json",
        "",
        "docs/test_examples.py::test_the_example_page_matches_the_response",
    ),
    Coverage(
        "pagination-and-sync.md",
        "python",
        "",
        "docs/test_examples.py::test_the_sync_example_fills_a_copy_and_changes_nothing_the_second_time",
    ),
    Coverage("pictures.md", "http json", "", "pictures/test_guide.py::test_every_example_matches_the_response"),
    Coverage("pictures.md", "text", "", "pictures/test_guide.py::test_the_shown_address_has_the_form_of_a_real_one"),
    Coverage("products.md", "http json", "", "products/test_guide.py::test_every_example_matches_the_response"),
    Coverage("python-sdk.md", "python", "", "client/test_guide.py::test_the_guide_runs_from_top_to_bottom"),
    Coverage("payments.md", "http json", "", "orders/test_guide.py::test_every_example_matches_the_response"),
    Coverage(
        "python-sdk.md",
        "bash",
        "generate",
        "docs/test_commands.py::test_the_commands_that_generate_clients_work",
    ),
    Coverage("quickstart.md", "bash", "make ", MAKE),
    Coverage("quickstart.md", "bash", "curl -s", CALLS),
    Coverage("quickstart.md", "bash", "source ", CALLS),
    Coverage("quickstart.md", "json", "", CALLS),
    Coverage("quickstart.md", "python javascript", "", FIRST_PROGRAMS),
    Coverage(
        "refunds-returns-fulfillments.md",
        "http json",
        "",
        "orders/test_guide.py::test_every_example_matches_the_response",
    ),
    Coverage("testing-an-app.md", "python", "", "client/test_testing.py::test_the_tests_of_the_guide_pass"),
    Coverage("testing-an-app.md", "typescript", "", "typescript/test_guide.py::test_the_tests_of_the_guide_pass"),
    Coverage("time.md", "http json", "", "orders/test_guide.py::test_every_example_matches_the_response"),
    Coverage(
        "typescript-sdk.md",
        "typescript",
        "",
        "typescript/test_guide.py::test_the_guide_runs_from_top_to_bottom",
    ),
    Coverage(
        "webhooks.md",
        "http json",
        "",
        "webhooks/test_guide.py::test_every_example_matches_the_response",
    ),
    Coverage(
        "exports.md", "http ndjson", "", "rest/test_exports_guide.py::test_the_requests_of_the_guide_answer_as_shown"
    ),
    Coverage(
        "exports.md",
        "json",
        "",
        "rest/test_exports_guide.py::test_the_last_line_of_a_stream_that_fails_is_the_shown_problem",
    ),
    Coverage("webhooks.md", "javascript php", "", VERIFYING),
    Coverage("webhooks.md", "bash", "openssl", VERIFYING),
    Coverage("webhooks.md", "python", "def verify(", VERIFYING),
    Coverage(
        "webhooks.md",
        "python",
        "def receive(",
        "webhooks/test_guide.py::test_the_receiver_handles_each_event_once_though_several_share_a_version",
    ),
    Coverage(
        "webhooks.md",
        "python",
        "def follow(",
        "webhooks/test_guide.py::test_the_feed_loop_receives_every_event",
    ),
    Coverage(
        "webhooks.md",
        "python",
        "def signed(",
        "webhooks/test_guide.py::test_a_signed_event_of_the_guide_passes_every_verification",
    ),
    Coverage(
        "webhooks.md",
        "bash",
        "stoa listen ",
        "docs/test_commands.py::test_stoa_listen_forwards_events_to_a_local_program",
    ),
]
EVERY_BLOCK = [
    pytest.param(page.name, block, id=f"{page.name}-{number}")
    for page in PAGES
    for number, block in enumerate(blocks(page, *PROGRAMS, *SAMPLES), 1)
]


@pytest.mark.parametrize(("page", "block"), EVERY_BLOCK)
def test_every_code_block_has_a_test(page: str, block: Block) -> None:
    if (page, block.text) not in UNTESTED:
        covering = [each for each in COVERED if each.page == page and block.language in each.languages.split()]
        assert any(each.containing in block.text for each in covering), f"no test covers:\n{block.text}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_code_block_declares_a_known_language(page: Path) -> None:
    """A block in an unknown language would escape the tests in this file."""
    fences = [line.strip() for line in page.read_text().splitlines() if line.strip().startswith("```")]
    assert {fence.removeprefix("```") for fence in fences[::2]} <= {*PROGRAMS, *SAMPLES}
    assert len(fences) == 2 * len(blocks(page, *PROGRAMS, *SAMPLES))


@pytest.mark.parametrize("covered", COVERED, ids=lambda each: f"{each.page}-{each.languages}-{each.containing}")
def test_every_listed_test_exists_and_reads_the_page(covered: Coverage) -> None:
    (page,) = [each for each in PAGES if each.name == covered.page]
    for language in covered.languages.split():
        assert any(covered.containing in block.text for block in blocks(page, language)), "the page has no such block"
    file, _, name = covered.test.partition("::")
    text = (ROOT / "tests" / file).read_text()
    functions = {
        node.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert name in functions
    assert covered.page in text
