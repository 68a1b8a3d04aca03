"""What workers note in files of their own, a line for each record: NANOSECONDS WHAT SHARD TEXT (src/…/Notes.java)."""

from pathlib import Path


class Notes:
    """All files, read as they grow."""

    def __init__(self):
        # How far each is read.
        self.paths: dict[Path, int] = {}
        self._noted: list[tuple[int, str, str]] = []
        self._seen: set[str] = set()

    def add(self, path: Path) -> Path:
        self.paths[path] = 0
        return path

    def read(self) -> int:
        """Reads what is new; how many notes there are."""
        for path, offset in self.paths.items():
            if not path.exists():
                continue
            with path.open("rb") as file:
                file.seek(offset)
                # The last line of a worker that was killed may be cut.
                lines, end, _ = file.read().rpartition(b"\n")
            self.paths[path] += len(lines) + len(end)
            for line in lines.decode().splitlines():
                at, what, _, text = line.split(" ")
                self._noted.append((int(at), what, text))
                if what == "record":
                    self._seen.add(text)
        return len(self._noted)

    def records(self) -> set[str]:
        """All records that a worker has seen by now."""
        self.read()
        return self._seen

    def in_order(self) -> list[str]:
        """The records as workers have seen them, one after the other."""
        self.read()
        return [text for _, what, text in sorted(self._noted, key=lambda note: note[0]) if what == "record"]
