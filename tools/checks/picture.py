#!/usr/bin/env python3
"""picture.py [--write]: draws docs/rooms.svg from docs/rooms.txt, after proving that the text is true of src/.

Without --write it compares the file with the drawing."""
import html
import re
import sys

from layers import LAYERS, root

ROW, LEFT, TOP, COLUMN, BOX_WIDTH, BOX_HEIGHT = 46, 260, 40, 134, 116, 34
WORDS = 21  # characters that a box has room for
FONT = 'font-family="DejaVu Sans, Helvetica, Arial, sans-serif"'
HEAD = "host"  # the row above src/


def read_text(path):
    """Rooms as (name, about), steps as (room, file, function, about), hits as (step, step), numbered from 1."""
    rooms, steps, hits = [], [], []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        kind, _, rest = line.partition(" ")
        fields = [field.strip() for field in rest.split("|")]
        if not line or line.startswith("#"):
            continue
        if kind == "room" and len(fields) == 2:
            rooms.append(fields)
        elif kind == "step" and len(fields) == 4:
            steps.append(fields)
        elif kind == "hit" and len(rest.split()) == 2:
            hits.append([int(word) for word in rest.split()])
        else:
            raise SystemExit(f"{path.relative_to(root)}:{number}: not a room, a step or a hit: {line}")
    return rooms, steps, hits


def find_lies(rooms, steps, hits):
    """Lines that say where the text is not true of the tree."""
    names = [name for name, _ in rooms if name != HEAD]
    folders = {path.name for path in (root / "src").iterdir() if path.is_dir()}
    if names != [layer for layer in reversed(LAYERS) if layer in folders]:
        yield f"the rooms are {', '.join(layer for layer in reversed(LAYERS) if layer in folders)}, in this order"
    for number, (room, file, function, about) in enumerate(steps, 1):
        if len(f"{number} {about}") > WORDS:
            yield f"step {number}: '{about}' is too long for its box"
        if room == HEAD and re.match(r"kiln_\w+$", about):
            continue
        path = root / "src" / room / file
        if not path.is_file():
            yield f"there is no src/{room}/{file}"
        elif not re.search(rf"^\w[\w *]*?\b{function}\([^;]*?\)\n{{", path.read_text(encoding="utf-8"), re.M | re.S):
            yield f"src/{room}/{file} does not define {function}"
    for first, second in hits:
        if not 1 <= first < second <= len(steps):
            yield f"there is no hit from step {first} to {second}"


def text(x, y, words, size=12, anchor="start", color="#222", weight="normal"):
    return (f'<text x="{x}" y="{y}" font-size="{size}" text-anchor="{anchor}" fill="{color}" font-weight="{weight}">'
            f"{html.escape(words)}</text>")


def draw_rooms(rooms, width):
    for i, (name, about) in enumerate(rooms):
        y = TOP + i * ROW
        yield f'<rect x="0" y="{y}" width="{width}" height="{ROW}" fill="{"#f4f6f8" if i % 2 else "#ffffff"}"/>'
        yield text(12, y + 20, name if name == HEAD else f"src/{name}", 13, weight="bold")
        yield text(12, y + 37, about, 11, color="#555")


def draw_steps(rooms, steps, hits):
    rows = {name: i for i, (name, _) in enumerate(rooms)}
    boxes = [(LEFT + i * COLUMN, TOP + rows[step[0]] * ROW + (ROW - BOX_HEIGHT) / 2) for i, step in enumerate(steps)]
    middle = BOX_HEIGHT / 2
    for (x, y), (next_x, next_y) in zip(boxes, boxes[1:]):
        bend = x + BOX_WIDTH + (COLUMN - BOX_WIDTH) / 2
        yield (f'<path d="M{x + BOX_WIDTH} {y + middle} H{bend} V{next_y + middle} H{next_x}" fill="none" stroke="#333" '
               'stroke-width="1.5" marker-end="url(#end)"/>')
    for first, second in hits:
        (x, y), (to_x, to_y) = boxes[first - 1], boxes[second - 1]
        start, end, rise = x + BOX_WIDTH / 2, to_x + BOX_WIDTH / 2, min(y, to_y) - 7
        yield (f'<path d="M{start} {y} V{rise} H{end} V{to_y}" fill="none" stroke="#1a7f37" stroke-width="1.5" '
               'stroke-dasharray="5 3" marker-end="url(#hit)"/>')
        yield text(start + 6, rise - 4, "hit", 11, color="#1a7f37")
    for number, ((x, y), (room, file, _, about)) in enumerate(zip(boxes, steps), 1):
        yield (f'<rect x="{x}" y="{y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="4" fill="#fff3d6" stroke="#b58900"/>')
        yield text(x + BOX_WIDTH / 2, y + 14, f"{number} {about}", 9.5, "middle")
        yield text(x + BOX_WIDTH / 2, y + 27, file if file else "", 9.5, "middle", "#666")


def draw(rooms, steps, hits):
    width, height = LEFT + len(steps) * COLUMN + 10, TOP + len(rooms) * ROW + 10
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {FONT}>',
             "<title>The rooms of Kiln, each using those below it, and the path of a request</title>",
             "<defs>"]
    for name, color in ("end", "#333"), ("hit", "#1a7f37"):
        lines.append(f'<marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
                     f'orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="{color}"/></marker>')
    lines += ["</defs>", f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
              text(12, 25, "a room uses those below it", 12, color="#555"),
              text(LEFT, 25, "the path of a request that misses; green: a hit goes on there", 12, color="#555")]
    lines += [*draw_rooms(rooms, width), *draw_steps(rooms, steps, hits), "</svg>"]
    return "\n".join(lines) + "\n"


def main():
    source, picture = root / "docs/rooms.txt", root / "docs/rooms.svg"
    rooms, steps, hits = read_text(source)
    problems = [f"docs/rooms.txt: {lie}" for lie in find_lies(rooms, steps, hits)]
    drawing = draw(rooms, steps, hits)
    if "--write" in sys.argv[1:]:
        picture.write_text(drawing, encoding="utf-8")
    elif not picture.is_file() or picture.read_text(encoding="utf-8") != drawing:
        problems.append("docs/rooms.svg is older than docs/rooms.txt: run tools/checks/picture.py --write")
    print("\n".join(problems), end="\n" if problems else "", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
