"""Hooks of mkdocs: pages that stand outside of docs/, and the reference of commands, made from the commands."""

import re
import sys
from pathlib import Path
from typing import Any

import click
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
OUTSIDE = {
    "index.md": "README.md",
    "architecture.md": "ARCHITECTURE.md",
    "protocol.md": "protocol/README.md",
}
"""Pages of the site, and the files of the repository that they are."""
_LINK = re.compile(
    r"(?:\[(?P<text>[^\]]*)\]\(|src=\")(?!https?:|#|mailto:)(?P<to>[^)#\"\s]+)(?P<anchor>#[^)\"]*)?[)\"]"
)
_PAGES = {outside: name for name, outside in OUTSIDE.items()}
_FOLDERS = {"protocol": "protocol/README.md", "docs/decisions": "docs/decisions/README.md"}


def on_files(files: Files, config: Any) -> Files:
    """Add the pages from outside, and that of the commands."""
    for name, source in OUTSIDE.items():
        files.append(File.generated(config, name, content=_moved((ROOT / source).read_text("utf-8"), source)))
    files.append(File.generated(config, "commands.md", content=commands()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links of pages within docs/ to files outside of it."""
    if page.file.generated_by:
        return markdown
    return _moved(markdown, f"docs/{page.file.src_uri}")


def _moved(text: str, source: str) -> str:
    """Each relative link as the site has it; where the site has no such page, its text alone."""
    folder = (ROOT / source).parent
    up = "../" * source.removeprefix("docs/").count("/") if source.startswith("docs/") else ""

    def link(match: re.Match[str]) -> str:
        target = (folder / match["to"]).resolve()
        path = target.relative_to(ROOT).as_posix() if target.is_relative_to(ROOT) else ""
        path = _FOLDERS.get(path, path)
        name = _PAGES.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else "")
        place = f"{up}{name}{match['anchor'] or ''}"
        if match["text"] is None:
            return f'src="{place}"'
        return f"[{match['text']}]({place})" if name else match["text"]

    return _LINK.sub(link, text)


def commands() -> str:
    """Every command with its options, as its --help has them."""
    sys.path.append(str(ROOT / "packaging"))
    from reference.manual import ENVIRONMENT, EXIT_CODES
    from reference.manual import commands as every

    from pinchpoint.cli.main import TOPICS, cli

    paths = {" ".join(words): command for words, command in every()}
    lines = ["# Commands", "", "Made from the commands themselves; `pinchpoint COMMAND --help` prints the same.", ""]
    for topic, members in TOPICS.items():
        lines += [f"## {topic}", ""]
        for path, command in paths.items():
            if command is not cli and any(path.split()[1] == member.name for member in members):
                context = click.Context(command, info_name=path, max_content_width=90, terminal_width=90)
                lines += [f"### {path}", "", "```text", command.get_help(context).replace("\b", ""), "```", ""]
    for table in (EXIT_CODES, ENVIRONMENT):
        title, _, rest = table.removeprefix("\b\n").partition(":\n")
        lines += [f"## {title}", "", "```text", rest.rstrip(), "```", ""]
    return "\n".join(lines)
