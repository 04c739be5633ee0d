"""Says which lock each statement of a migration takes on which existing table, and whether it keeps the lock for long.

It knows the statements that migrations use. Any other counts as unknown, with the strongest lock for a long time. The
linter squawk does not replace it: it cannot name the locks for `stoa migrate --plan`, and it accepts an UPDATE of all rows,
CLUSTER, LOCK TABLE, SET UNLOGGED and a new column with a check (version 2.70).
"""

import re
from collections.abc import Iterator

import msgspec

ACCESS_EXCLUSIVE, SHARE_ROW_EXCLUSIVE, SHARE = "ACCESS EXCLUSIVE", "SHARE ROW EXCLUSIVE", "SHARE"
SHARE_UPDATE_EXCLUSIVE, ROW_EXCLUSIVE = "SHARE UPDATE EXCLUSIVE", "ROW EXCLUSIVE"
_BLOCKED = {ACCESS_EXCLUSIVE: "reads and writes", SHARE_ROW_EXCLUSIVE: "writes", SHARE: "writes"}
UNKNOWN = "unknown statement"


class Effect(msgspec.Struct, frozen=True):
    """What a statement does to one table. Without a table, it locks none that other transactions use."""

    action: str
    table: str = ""
    lock: str = ""
    long: bool = False  # it reads or writes all rows while it holds the lock
    rewrites: bool = False
    removes: bool = False  # the previous release may still use what it removes or renames

    @property
    def blocks(self) -> str:
        return _BLOCKED.get(self.lock, "nothing") if self.table else "nothing"


_NAME = r"(?:public\.)?\"?(\w+)\"?"
_ADD_COLUMN = re.compile(
    r"ADD (?:COLUMN )?(?:IF NOT EXISTS )?(?!CONSTRAINT\b|CHECK\b|FOREIGN\b|UNIQUE\b|PRIMARY\b)", re.IGNORECASE
)
_ADD_CONSTRAINT = re.compile(
    r"ADD (?:CONSTRAINT (\w+) )?(CHECK|FOREIGN KEY|UNIQUE|PRIMARY KEY|NOT NULL)", re.IGNORECASE
)
_FOREIGN_KEY = re.compile(rf"CONSTRAINT (\w+) FOREIGN KEY \([^)]*\) REFERENCES {_NAME}", re.IGNORECASE)
_REFERENCES = re.compile(rf"\bREFERENCES {_NAME}", re.IGNORECASE)
# PostgreSQL evaluates these once; any other default may differ from row to row, so it would write all rows.
_CONSTANT_DEFAULT = re.compile(
    r"DEFAULT (?:NULL|TRUE|FALSE|-?[\d.]+|'[^']*'|now\(\)|current_timestamp|current_date)(?:::[\w ]+(?:\[\])?)?(?= |,|\)|$)",
    re.IGNORECASE,
)
_COMPUTED = re.compile(r"\bGENERATED\b|\b(?:small|big)?serial\b", re.IGNORECASE)
_INLINE_CHECKED = re.compile(r"\b(?:CHECK|REFERENCES|UNIQUE|PRIMARY KEY)\b", re.IGNORECASE)
_NOT_NULL_CHECK = re.compile(r"CHECK \(\(?(\w+) IS NOT NULL\)?\)", re.IGNORECASE)
_CREATED_INDEX = re.compile(
    rf"CREATE (?:UNIQUE )?INDEX (CONCURRENTLY )?(?:IF NOT EXISTS )?{_NAME} ON (?:ONLY )?{_NAME}", re.IGNORECASE
)
_DROP = re.compile(rf"DROP (TABLE|VIEW|SEQUENCE|TYPE|INDEX)( CONCURRENTLY)? (?:IF EXISTS )?{_NAME}", re.IGNORECASE)
# The commands of ALTER TABLE that need no further look: what they do, their lock, and the effects that differ.
_COMMANDS: tuple[tuple[str, str, str, dict[str, bool]], ...] = (
    (r"VALIDATE CONSTRAINT", "validate a constraint", SHARE_UPDATE_EXCLUSIVE, {"long": True}),
    (r"ALTER (?:COLUMN )?\w+ (?:SET DATA )?TYPE", "change a type", ACCESS_EXCLUSIVE, {"long": True, "rewrites": True, "removes": True}),
    (r"ALTER (?:COLUMN )?\w+ (?:SET|DROP) DEFAULT", "change a default", ACCESS_EXCLUSIVE, {}),
    (r"ALTER (?:COLUMN )?\w+ DROP NOT NULL", "drop not null", ACCESS_EXCLUSIVE, {}),
    (r"ALTER (?:COLUMN )?\w+ SET STORAGE", "set storage", ACCESS_EXCLUSIVE, {}),
    (r"ALTER (?:COLUMN )?\w+ SET (?:STATISTICS|\()", "set planner options", SHARE_UPDATE_EXCLUSIVE, {}),
    (r"(?:SET|RESET) \(", "set storage options", SHARE_UPDATE_EXCLUSIVE, {}),
    (r"SET (?:UN)?LOGGED", "rewrite the table", ACCESS_EXCLUSIVE, {"long": True, "rewrites": True}),
    (r"DROP CONSTRAINT (?:IF EXISTS )?\w+_check$", "drop a check", ACCESS_EXCLUSIVE, {}),  # then more is allowed than before
    (r"DROP (?:COLUMN|CONSTRAINT) ", "drop a column or constraint", ACCESS_EXCLUSIVE, {"removes": True}),
    (r"RENAME ", "rename", ACCESS_EXCLUSIVE, {"removes": True}),
)  # fmt: skip


def created_index(statement: str) -> str | None:
    """The name of the index that a statement creates."""
    found = _CREATED_INDEX.match(_flat(statement))
    return found[2] if found else None


def _flat(statement: str) -> str:
    """A statement on one line, without comments."""
    return " ".join(re.sub(r"--[^\n]*", "", statement).split()).rstrip("; ")


def _commands(text: str) -> list[str]:
    """The commands of an ALTER TABLE: split at commas outside parentheses and quotes."""
    parts, depth, quoted = [""], 0, False
    for character in text:
        quoted ^= character == "'"
        depth += 0 if quoted else (character == "(") - (character == ")")
        if character == "," and not depth and not quoted:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


class LockReader:
    """Reads statements in the order in which they run, because later ones depend on what earlier ones created."""

    def __init__(self) -> None:
        self.new: set[str] = set()  # tables that no other transaction can use yet
        self.partitioned: set[str] = set()
        self.placements: dict[str, str] = {}
        self._foreign_keys: dict[tuple[str, str], str] = {}  # the tables that they refer to, by table and name
        self._checks: dict[tuple[str, str], str] = {}  # CHECK (column IS NOT NULL), by table and name
        self._never_null: set[tuple[str, str]] = set()

    def read(self, statement: str) -> list[Effect]:
        """What a statement does, with one entry for each existing table that it locks."""
        effects = list(self._effects(_flat(statement)))
        seen = [effect for effect in effects if effect.table and effect.table not in self.new]
        return seen or [msgspec.structs.replace(effects[0], table="", lock="", long=False, rewrites=False)]

    def locks(self, statement: str) -> bool:
        """Whether a statement locks a table that other transactions may use."""
        return any(effect.table for effect in self.read(statement))

    def _effects(self, text: str) -> Iterator[Effect]:
        if found := re.match(
            rf"CREATE (?:UNLOGGED )?TABLE (?:IF NOT EXISTS )?{_NAME}( PARTITION OF {_NAME})?", text, re.IGNORECASE
        ):
            self.new.add(found[1])
            if re.search(r"\) PARTITION BY ", text, re.IGNORECASE):
                self.partitioned.add(found[1])
            yield Effect("create a table", found[1], ACCESS_EXCLUSIVE)
            self._add_foreign_keys(found[1], text)
            if found[3]:
                yield Effect("add a partition", found[3], ACCESS_EXCLUSIVE)
            for table in dict.fromkeys(_REFERENCES.findall(text)):
                yield Effect("refer to a table", table, SHARE_ROW_EXCLUSIVE)
        elif found := _CREATED_INDEX.match(text):
            if found[1]:
                yield Effect("build an index concurrently", found[3], SHARE_UPDATE_EXCLUSIVE, long=True)
            else:
                yield Effect("build an index", found[3], SHARE, long=True)
        elif found := re.match(rf"ALTER TABLE (?:IF EXISTS )?(?:ONLY )?{_NAME} (.*)", text, re.IGNORECASE):
            for command in _commands(found[2]):
                yield from self._command(found[1], command)
        elif found := re.match(rf"COMMENT ON TABLE {_NAME} IS '(\w*)'", text, re.IGNORECASE):
            self.placements[found[1]] = found[2]
            yield Effect("comment", found[1], SHARE_UPDATE_EXCLUSIVE)
        elif found := re.match(rf"COMMENT ON COLUMN {_NAME}\.", text, re.IGNORECASE):
            yield Effect("comment", found[1], SHARE_UPDATE_EXCLUSIVE)
        elif found := re.match(rf"INSERT INTO {_NAME}", text, re.IGNORECASE):
            yield Effect("insert rows", found[1], ROW_EXCLUSIVE)
        elif found := re.match(rf"(?:UPDATE|DELETE FROM) {_NAME}", text, re.IGNORECASE):
            yield Effect("change rows", found[1], ROW_EXCLUSIVE, long=True)
        elif found := _DROP.match(text):
            lock = SHARE_UPDATE_EXCLUSIVE if found[2] else ACCESS_EXCLUSIVE
            yield Effect(f"drop a {found[1].lower()}", found[3], lock, removes=found[1].upper() != "INDEX")
        elif re.match(r"SELECT make_day\(", text, re.IGNORECASE):
            yield Effect("create the partitions of the next days")
        elif found := re.match(rf"CREATE (OR REPLACE )?VIEW {_NAME}", text, re.IGNORECASE):
            if not found[1]:
                self.new.add(found[2])
            yield Effect("replace a view" if found[1] else "create a view", found[2], ACCESS_EXCLUSIVE)
        elif re.match(r"CREATE (?:SEQUENCE|TYPE)\b|ALTER SEQUENCE\b", text, re.IGNORECASE):
            yield Effect("create a sequence or type")
        else:
            yield Effect(UNKNOWN, "every table", ACCESS_EXCLUSIVE, long=True)

    def _command(self, table: str, command: str) -> Iterator[Effect]:
        self._add_foreign_keys(table, command)
        if constraint := _ADD_CONSTRAINT.match(command):
            yield from self._constraint(table, command, constraint[1] or "", constraint[2].upper())
        elif _ADD_COLUMN.match(command):
            rewrites = bool(_COMPUTED.search(command)) or (
                "DEFAULT" in command.upper() and not _CONSTANT_DEFAULT.search(command)
            )
            checked = bool(_INLINE_CHECKED.search(command)) or (
                bool(re.search(r"\bNOT NULL\b", command, re.IGNORECASE)) and "DEFAULT" not in command.upper()
            )
            yield Effect("add a column", table, ACCESS_EXCLUSIVE, long=rewrites or checked, rewrites=rewrites)
            for other in _REFERENCES.findall(command):
                yield Effect("refer to a table", other, SHARE_ROW_EXCLUSIVE, long=True)
        elif found := re.match(r"ALTER (?:COLUMN )?(\w+) SET NOT NULL$", command, re.IGNORECASE):
            yield Effect("set not null", table, ACCESS_EXCLUSIVE, long=(table, found[1]) not in self._never_null)
        else:
            for pattern, action, lock, rest in _COMMANDS:
                if re.match(pattern, command, re.IGNORECASE):
                    if name := re.match(r"VALIDATE CONSTRAINT (\w+)", command, re.IGNORECASE):
                        self._never_null.add((table, self._checks.get((table, name[1]), "")))
                    yield Effect(action, table, lock, **rest)
                    dropped = re.match(r"DROP CONSTRAINT (?:IF EXISTS )?(\w+)", command, re.IGNORECASE)
                    if dropped and (other := self._foreign_keys.get((table, dropped[1]))):
                        yield Effect("end a reference to a table", other, lock)
                    return
            yield Effect(UNKNOWN, table, ACCESS_EXCLUSIVE, long=True)

    def _add_foreign_keys(self, table: str, text: str) -> None:
        self._foreign_keys |= {(table, name): other for name, other in _FOREIGN_KEY.findall(text)}

    def _constraint(self, table: str, command: str, name: str, kind: str) -> Iterator[Effect]:
        later = command.upper().endswith(" NOT VALID")
        if found := _NOT_NULL_CHECK.search(command):
            if later:
                self._checks[table, name] = found[1]
            else:
                self._never_null.add((table, found[1]))
        short = later or " USING INDEX " in command.upper()
        lock = SHARE_ROW_EXCLUSIVE if kind == "FOREIGN KEY" else ACCESS_EXCLUSIVE
        yield Effect("add a constraint", table, lock, long=not short)
        for other in _REFERENCES.findall(command):
            yield Effect("refer to a table", other, lock, long=not short)
