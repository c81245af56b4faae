"""Pictures: what is in them is read back from the SVG and compared with the table; formats, failures, names that would be code."""

import csv
import io
import math
import os
import re
import shutil
import signal
import stat
import subprocess
import time
import unittest
import xml.etree.ElementTree as ET

from support import KILN, KilnTest

SVG = "{http://www.w3.org/2000/svg}"
LINK = "{http://www.w3.org/1999/xlink}href"
INK = (31, 35, 40)
SPEC = "op=relu6 dtype=f32 target=cpu"
MAGIC = {"svg": b"<?xml", "png": b"\x89PNG\r\n\x1a\n", "pdf": b"%PDF-"}
COLUMNS = ("device model target op dtype elements bytes block elems vector spec verdict problem time_ms gbps ratio ratio_low "
           "ratio_high ceiling_ratio samples registers local_bytes ceiling_gbps").split()
SIZE_COLUMNS = ("device model target op dtype elements bytes spec time_ms min_ms gbps verified low_ms high_ms memory_copy_gbps "
                "copy_kernel_gbps").split()
BLOCKS, ELEMS = ("64", "128", "256", "512", "1024"), ("1", "2", "4", "8", "16", "32")
MULTIPLE = "elems must be a multiple of vector"


def speed(row, column):
    """1200 to 4280 GB/s: too little work for each thread at one corner, too few threads at the other."""
    idle, spill = max(0, 4.5 - row - column), max(0, row + column - 5.5)
    return 4289 - 95 * idle ** 2 - 140 * spill ** 2 - 7 * (row - 2) ** 2 - 3 * column


def variants(op="hardsigmoid", **fields):
    """The rows of a sweep: block by elems, and two parameters that the heat map hides. Blocks with elems=32 are impossible."""
    rows = []
    for row, block in enumerate(BLOCKS):
        for column, elems in enumerate(ELEMS):
            for vector in (1, 2, 4):
                for cache in ("plain", "stream"):
                    spec = f"op={op} dtype=f32 block={block} elems={elems} vector={vector} cache={cache} target=sm_90"
                    one = dict(device="cuda:0", model="NVIDIA H200", target="sm_90", op=op, dtype="f32", elements=1 << 28,
                               bytes=8 << 28, spec=spec, samples=30, ceiling_gbps=4237)
                    if int(elems) % vector or elems == "32":
                        one.update(verdict="impossible", problem=MULTIPLE)
                    else:
                        gbps = speed(row, column) - 40 * (4 - vector) - 25 * (cache != "plain")
                        one.update(verdict="tied", gbps=gbps, time_ms=2147.483648 / gbps)
                    rows.append({**one, **fields})
    return rows


def table(rows, columns=COLUMNS):
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\r\n", extrasaction="ignore")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def sizes(ops=("relu6", "add"), each=(8, 12)):
    """The rows of a bench: two lines over eleven sizes."""
    rows = []
    for i in range(10, 21):
        for k, op in enumerate(ops):
            count = (1 << i) * each[k]
            gbps = 100 + 10 * i + 50 * k
            rows.append(dict(device="cpu", model="EPYC", target="cpu", op=op, dtype="f32", elements=1 << i, bytes=count,
                             spec=f"op={op} dtype=f32 block=64 target=cpu", time_ms=count / gbps / 1e6, min_ms=1, gbps=gbps,
                             verified="yes", low_ms=count / gbps / 1.1e6, high_ms=count / gbps / 0.9e6,
                             memory_copy_gbps=260 + i, copy_kernel_gbps=200 + i))
    return rows


def numbers(text):
    return [float(word) for word in re.findall(r"-?\d+(?:\.\d+)?", text)]


def luminance(colour):
    light = [c / 255 / 12.92 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour]
    return 0.2126 * light[0] + 0.7152 * light[1] + 0.0722 * light[2]


class Picture:
    """The content of an SVG of gnuplot's: texts with their places, areas with their colours, strokes, marks."""

    def __init__(self, data):
        self.root = ET.fromstring(data)
        self.texts, self.areas, self.strokes, self.marks = [], [], [], []
        self.width, self.height = float(self.root.get("width")), float(self.root.get("height"))
        for group in self.root.iter(SVG + "g"):
            for child in group:
                self.take(group, child)

    def take(self, group, child):
        if child.tag == SVG + "text":
            x, y = numbers(group.get("transform"))[:2]
            self.texts.append(("".join(child.itertext()), x, y, tuple(map(int, numbers(group.get("fill"))))))
        elif child.tag == SVG + "polygon":
            points = numbers(child.get("points"))
            fill = child.get("fill")
            colour = tuple(map(int, numbers(fill))) if fill.startswith("rgb") else fill
            self.areas.append((colour, min(points[::2]), min(points[1::2]), max(points[::2]), max(points[1::2])))
        elif child.tag == SVG + "path" and group.get("stroke-width"):
            colour = child.get("stroke")
            self.strokes.append((tuple(map(int, numbers(colour))) if colour.startswith("rgb") else colour,
                                 float(group.get("stroke-width")), child.get("d"), child.get("stroke-dasharray")))
        elif child.tag == SVG + "use" and child.get("transform", "").startswith("translate") and child.get("color", "").startswith("rgb"):
            self.marks.append((child.get(LINK), tuple(map(int, numbers(child.get("color")))), *numbers(child.get("transform"))[:2]))

    def words(self):
        return [text for text, *_ in self.texts]

    def place(self, text):
        """Of the one text that reads so."""
        found = [(x, y) for word, x, y, _ in self.texts if word == text]
        assert len(found) == 1, (text, found)
        return found[0]

    def area(self, x, y):
        """The colours over each other at a place, the topmost last."""
        return [area for area in self.areas if area[1] <= x <= area[3] and area[2] <= y <= area[4]]


class Drawing(KilnTest):
    def write(self, name, text):
        with open(self.path(name), "w", newline="", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
        return self.path(name)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def draw(self, rows, columns=COLUMNS, **options):
        text = rows if isinstance(rows, str) else table(rows, columns)
        self.kiln("plot", self.write("t.csv", text), self.path("t.svg"), **options)
        return Picture(self.read("t.svg"))

    def gnuplot(self, script):
        """An environment where that shell script is gnuplot; None: where there is no gnuplot."""
        programs = self.path("bin")
        os.makedirs(programs, exist_ok=True)
        for tool in ("sh", "cat", "sleep", "kill", "cc", "as", "ld"):
            if not os.path.lexists(os.path.join(programs, tool)) and shutil.which(tool):
                os.symlink(shutil.which(tool), os.path.join(programs, tool))
        if script is not None:
            path = os.path.join(programs, "gnuplot")
            with open(path, "w", encoding="ascii") as file:
                file.write("#!/bin/sh\ntext=$(cat)\ncase $text in *plot\\ *) ;; *) exit 0 ;; esac\n" + script)
            os.chmod(path, 0o755)
        return dict(self.env, PATH=programs)


class Heatmap(Drawing):
    def setUp(self):
        super().setUp()
        self.rows = variants()
        self.picture = self.draw(self.rows)
        self.best = {}
        for row in self.rows:
            place = tuple(re.search(r"block=(\d+) elems=(\d+)", row["spec"]).groups())
            self.best[place] = max(self.best.get(place, 0), row.get("gbps", 0))

    def middle(self, block, elems):
        """Of a cell, from the labels of the axes: the column's has its x, the row's its y."""
        x = min(x for text, x, y, _ in self.picture.texts if text == elems and y > self.picture.place("1024")[1])
        return x, next(y for text, _, y, _ in self.picture.texts if text == block)

    def test_numbers_are_those_of_the_table(self):
        found = {}
        for place, gbps in self.best.items():
            x, y = self.middle(*place)
            inside = [text for text, tx, ty, _ in self.picture.texts if abs(tx - x) < 2 and abs(ty - y) < 4]
            found[place] = inside
            self.assertEqual(inside, [f"{gbps:.0f}"] if gbps else [], place)
        self.assertEqual(len(found), 30)

    def test_best_is_outlined(self):
        best = max(self.best, key=self.best.get)
        x, y = self.middle(*best)
        frames = [numbers(path) for colour, width, path, _ in self.picture.strokes
                  if colour == INK and width == 2.5 and path.rstrip().endswith("Z")]
        self.assertEqual(len(frames), 1)
        frame = frames[0]
        self.assertTrue(min(frame[::2]) < x < max(frame[::2]) and min(frame[1::2]) < y < max(frame[1::2]))
        self.assertLess(max(frame[::2]) - min(frame[::2]), 60)
        self.assertIn(f"best: {self.best[best]:.0f} GB/s with block {best[0]}, elems {best[1]} (vector=4 cache=plain)",
                      self.picture.words())

    def test_ceiling_is_marked_where_the_colour_bar_has_its_value(self):
        marks = [numbers(path) for colour, width, path, _ in self.picture.strokes
                 if colour == INK and width == 2 and not path.rstrip().endswith("Z")]
        self.assertEqual(len(marks), 1)
        bar = [(float(text), y) for text, x, y, _ in self.picture.texts if x > marks[0][0] and re.fullmatch(r"[23]\d\d\d", text)]
        (low, low_y), (high, high_y) = min(bar), max(bar)
        self.assertGreater(high - low, 900)
        value = low + (high - low) * (low_y - marks[0][1] - 3.9) / (low_y - high_y)
        self.assertAlmostEqual(value, 4237, delta=15)
        for text in ("4237", "plain copy", "GB/s"):
            self.assertIn(text, self.picture.words())

    def test_colours_grow_lighter_and_numbers_can_be_read(self):
        seen = []
        for place, gbps in self.best.items():
            if not gbps:
                continue
            x, y = self.middle(*place)
            ground = self.picture.area(x, y - 4)[-1][0]
            ink = next(colour for text, tx, ty, colour in self.picture.texts if abs(tx - x) < 2 and abs(ty - y) < 4)
            light = sorted((luminance(ground) + 0.05, luminance(ink) + 0.05))
            self.assertGreater(light[1] / light[0], 3.9)
            seen.append((gbps, luminance(ground)))
        below = [light for gbps, light in sorted(seen) if gbps < 4237]
        self.assertEqual(below, sorted(below))
        self.assertGreater(below[-1] - below[0], 0.5)
        self.assertLess(max(light for gbps, light in seen if gbps > 4237) - min(light for gbps, light in seen if gbps > 4237), 0.01)

    def test_impossible_cells_are_hatched(self):
        for place, gbps in self.best.items():
            x, y = self.middle(*place)
            hatched = any(isinstance(area[0], str) and area[0].startswith("url") for area in self.picture.area(x, y - 4))
            self.assertEqual(hatched, not gbps, place)
        self.assertIn(f"hatched: {MULTIPLE}", self.picture.words())

    def test_heading_and_axes(self):
        for text in ("hardsigmoid f32: speed by geometry", "NVIDIA H200 (cuda:0, sm_90)", "block", "elems",
                     "2^28 elements, 2.0 GiB read and written by a launch",
                     "120 variants measured, each checked bit for bit; in each cell the best over vector and cache"):
            self.assertIn(text, self.picture.words())

    def test_everything_is_on_the_card(self):
        for rows in (self.rows, variants() + variants("relu6"), [row for k in range(9) for row in variants(f"op{k}")]):
            picture = self.draw(rows)
            for text, x, y, _ in picture.texts:
                self.assertTrue(0 < x < picture.width and 0 < y < picture.height, text)
            for _, left, top, right, bottom in picture.areas:
                self.assertTrue(0 <= left < right <= picture.width and 0 <= top < bottom <= picture.height)


class Variants(Drawing):
    def test_kinds_have_panels(self):
        rows = variants() + [row for row in variants("relu6", ceiling_gbps=4100) if "block=64 " in row["spec"]]
        words = self.draw(rows).words()
        for text in ("Speed by geometry", "hardsigmoid f32", "relu6 f32", "fastest plain copy", "4237"):
            self.assertIn(text, words)
        self.assertEqual(words.count("elems"), 2)
        self.assertEqual(words.count("block"), 1)

    def test_devices_and_sizes_tell_kinds_apart(self):
        words = self.draw(variants() + variants(device="cuda:1", elements=1 << 20, bytes=8 << 20)).words()
        for text in ("hardsigmoid f32 on cuda:0, 2^28 elements", "hardsigmoid f32 on cuda:1, 2^20 elements", "NVIDIA H200", "several sizes"):
            self.assertIn(text, words)

    def test_refused_variants(self):
        rows = variants()
        for row in rows:
            if "block=64 elems=1 " in row["spec"]:
                row.update(verdict="out", problem="7 elements are wrong", gbps="", time_ms="")
        words = self.draw(rows).words()
        self.assertIn("hatched: impossible or out; the column 'problem' of the CSV says why", words)
        self.assertTrue(any("; 6 out; in each cell" in text for text in words), words)

    def one_parameter(self, op="hardsigmoid", **fields):
        rows = [row for row in variants(op, **fields) if "block=256 " in row["spec"] and "vector=1 cache=plain" in row["spec"]]
        for row in rows:
            row.update(ratio=1.1, ratio_low=1.0, ratio_high=1.2)
        return rows

    def test_lines_of_one_parameter(self):
        rows = self.one_parameter()
        picture = self.draw(rows)
        marks = sorted((x, y) for name, colour, x, y in picture.marks if colour == (31, 111, 184))[:5]
        ticks = [(float(text), y - 3.9) for text, x, y, _ in picture.texts if re.fullmatch(r"[1-5]\d\d\d", text) and x < 90]
        (low, low_y), (high, high_y) = min(ticks), max(ticks)
        for (x, y), row in zip(marks, rows):
            elems = re.search(r"elems=(\d+)", row["spec"])[1]
            self.assertAlmostEqual(x, picture.place(elems)[0], delta=0.1)
            self.assertAlmostEqual(low + (high - low) * (low_y - y) / (low_y - high_y), row["gbps"], delta=5)
            self.assertIn(f"{row['gbps']:.0f}", picture.words())
        best = max((row for row in rows if "gbps" in row), key=lambda row: row["gbps"])
        self.assertTrue(any(text.startswith(f"best: {best['gbps']:.0f} GB/s with elems ") for text in picture.words()))
        rings = [(x, y) for name, colour, x, y in picture.marks if colour == INK]
        self.assertEqual(rings, [min(marks, key=lambda mark: mark[1])])
        for text in ("plain copy: 4237", "hardsigmoid f32", "elems", "GB/s", "hardsigmoid f32: speed by geometry"):
            self.assertIn(text, picture.words())

    def test_lines_of_several_kinds(self):
        words = self.draw(self.one_parameter() + self.one_parameter("relu6", ceiling_gbps=4100)).words()
        for text in ("hardsigmoid f32", "relu6 f32", "plain copy, hardsigmoid f32: 4237", "plain copy, relu6 f32: 4100"):
            self.assertIn(text, words)

    def test_a_parameter_that_another_decides_on_is_not_shown(self):
        rows = [row for row in variants() if "block=256 " in row["spec"] and "cache=plain" in row["spec"]]
        rows = [row for row in rows if re.search(r"elems=1 vector=1|elems=2 vector=2|elems=(4|8|16) vector=4", row["spec"])]
        words = self.draw(rows).words()
        self.assertNotIn("vector", words)
        self.assertIn("plain copy: 4237", words)

    def test_far_above_the_ceiling_colours_go_on(self):
        picture = self.draw(variants(ceiling_gbps=2500))
        grounds = [area[0] for area in picture.areas if 50 < area[3] - area[1] < 60 and isinstance(area[0], tuple)]
        self.assertGreater(len(set(grounds)), 15)

    def test_nothing(self):
        self.assertIn("nothing was measured", self.draw([]).words())
        self.assertIn("nothing was measured", self.draw([row for row in variants() if row["verdict"] == "impossible"]).words())
        self.assertIn("Speed by size", self.draw([], SIZE_COLUMNS).words())

    def test_tables_of_before_have_no_ceiling(self):
        words = self.draw(variants(), COLUMNS[:-1]).words()
        self.assertNotIn("plain copy", words)
        self.assertIn("4280", words)


class Sizes(Drawing):
    def test_lines(self):
        rows = sizes()
        picture = self.draw(rows, SIZE_COLUMNS)
        for text in ("Speed by size", "relu6 f32", "add f32", "memory copy, 8 B an element", "copy kernel, 12 B an element", "elements",
                     "2^10", "2^20", "medians; the bars reach over the middle half of the rounds; every result checked bit for bit"):
            self.assertIn(text, picture.words())
        blue = sorted((x, y) for _, colour, x, y in picture.marks if colour == (31, 111, 184))[:11]
        ticks = [(float(text), y - 3.9) for text, x, y, _ in picture.texts if re.fullmatch(r"\d+", text) and x < 90]
        (low, low_y), (high, high_y) = min(ticks), max(ticks)
        self.assertEqual(low, 0)
        for (x, y), row in zip(blue, [row for row in rows if row["op"] == "relu6"]):
            self.assertAlmostEqual(high * (low_y - y) / (low_y - high_y), row["gbps"], delta=1)
        steps = [b[0] - a[0] for a, b in zip(blue, blue[1:])]
        self.assertLess(max(steps) - min(steps), 0.05)
        dashes = [stroke[3] for stroke in picture.strokes if stroke[3]]
        self.assertEqual(len(set(dashes)), 4)

    def test_bytes_where_all_lines_move_as_many(self):
        words = self.draw(sizes(each=(8, 8)), SIZE_COLUMNS).words()
        for text in ("elements", "bytes read and written", "8.0 KiB", "8.0 MiB", "memory copy", "copy kernel"):
            self.assertIn(text, words)

    def test_one_wild_measurement_does_not_press_the_rest_down(self):
        rows = sizes()
        rows[0]["low_ms"] = rows[0]["time_ms"] / 1000
        self.assertNotIn("200000", self.draw(rows, SIZE_COLUMNS).words())
        self.assertIn("100", self.draw(rows, SIZE_COLUMNS).words())

    def test_rows_may_come_in_any_order(self):
        rows = sizes()
        xs = [x for _, colour, x, _ in self.draw(rows[::-1], SIZE_COLUMNS).marks if colour == (31, 111, 184)][:11]
        self.assertEqual(xs, sorted(xs))


class Formats(Drawing):
    def test_the_ending_chooses(self):
        self.write("t.csv", table(variants()))
        for ending, magic in MAGIC.items():
            for name in ("t." + ending, "T." + ending.upper()):
                self.kiln("plot", "t.csv", name, cwd=self.dir)
                data = self.read(name)
                self.assertTrue(data.startswith(magic), data[:20])
                self.assertGreater(len(data), 5000)
        self.assertEqual(sorted(os.listdir(self.dir)), sorted(["t.csv", "t.svg", "t.png", "t.pdf", "T.SVG", "T.PNG", "T.PDF"]))

    def test_other_endings_are_refused_before_anything(self):
        for name in ("t.gif", "t", "svg", "t.svg.gz", "", "dir/"):
            for command in (["plot", "none.csv"], ["sweep", SPEC, "--size", "2^10", "--plot"], ["tune", SPEC, "--plot"],
                            ["bench", SPEC, "--plot"]):
                self.assert_bad([*command, name], ".svg, .png or .pdf")
        self.assertEqual(os.listdir(self.dir), [])

    def test_pipes(self):
        text = table(variants()).encode()
        result = subprocess.run([KILN, "plot", "-", "-"], input=text, env=self.env, stdout=subprocess.PIPE, check=True, cwd=self.dir)
        self.assertIn("4280", Picture(result.stdout).words())
        with open("/dev/full", "wb") as full:
            result = subprocess.run([KILN, "plot", "-", "-"], input=text, env=self.env, stdout=full, stderr=subprocess.PIPE, check=False)
        self.assertEqual(result.returncode, 2)
        self.assertEqual(result.stderr, b"kiln: standard output: cannot be written: No space left on device\n")

    def test_what_cannot_be_written(self):
        os.mkdir(self.path("there.svg"))
        for name in ("there.svg", "none/t.svg"):
            for command in (["plot", "t.csv"], ["sweep", SPEC, "--size", "2^10", "--plot"]):
                self.assert_bad([*command, self.path(name)], "cannot be written", name)
        if os.geteuid():
            os.chmod(self.dir, 0o500)
            self.assert_bad(["plot", "t.csv", self.path("t.svg")], "cannot be written")
            os.chmod(self.dir, 0o700)
        self.assertEqual(os.listdir(self.dir), ["there.svg"])

    def test_what_is_no_table(self):
        good = table(variants())
        for text, words in (("", "empty"), ("hello", "no table"), ("a,b\r\n1\r\n", "t.csv:2: a row has more or fewer"),
                            ('a,b\n"1,2\n', "t.csv:2: a quote is not closed"), ('a\n"1"2\n', "t.csv:2: text follows"),
                            (good + "1,2\r\n", "t.csv:182: a row has more or fewer"), ("spec,gbps\r\n", "no table"), ("a\0b", "no text")):
            self.write("t.csv", text)
            self.assert_bad(["plot", "t.csv", "t.svg"], words, cwd=self.dir)
        self.assert_bad(["plot", "none.csv", "t.svg"], "cannot read none.csv", cwd=self.dir)
        self.assert_bad(["plot", "t.csv"], "FILE.csv")
        self.assert_bad(["plot", "t.csv", "t.svg", "u.svg"], "FILE.csv")
        self.assertEqual(os.listdir(self.dir), ["t.csv"])

    def test_tables_from_spreadsheets(self):
        want = self.draw(variants()).texts
        text = table(variants())
        self.assertEqual(self.draw("\ufeff" + text.replace("\r\n", "\n")).texts, want)
        titles = list(reversed(COLUMNS)) + ["mine"]
        self.assertEqual(self.draw(table(variants(mine='said "no",\nand left'), titles)).texts, want)

    def test_equal_pictures_in_another_locale(self):
        localedef = shutil.which("localedef")
        if not localedef or subprocess.run([localedef, "-i", "de_DE", "-f", "UTF-8", self.path("de_DE.UTF-8")], check=False,
                                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
            self.skipTest("no sources of locales")
        self.draw(variants())
        want = self.read("t.svg")
        self.draw(variants(), env=dict(self.env, LOCPATH=self.dir, LC_ALL="de_DE.UTF-8"))
        self.assertEqual(self.read("t.svg"), want)

    def test_start_up_files_change_nothing(self):
        self.draw(variants())
        want = self.read("t.svg")
        self.write(".gnuplot", "set terminal dumb\nset xrange [5:6]\n")
        self.draw(variants(), env=dict(self.env, HOME=self.dir), cwd=self.dir)
        self.assertEqual(self.read("t.svg"), want)


class Names(Drawing):
    HOSTILE = ("`touch {p}`", "$(touch {p})", "'; system('touch {p}') #", '"; system("touch {p}") #', "!touch {p}", "@W @H",
               "EOD\nsystem('touch {p}')\n", "a_{{b}}^2", "\\n \\042 \\", "100%d %s %%", "<b>&amp;&#65;</b>", "\u00e9\u2026\U0001f600",
               "bad\x01\x1b", "\udcff\udcfe")

    def text(self, number):
        return self.HOSTILE[number % len(self.HOSTILE)].format(p="touched")

    def shown(self, text):
        text = text.replace("\n", " ").replace("\x01", "\ufffd").replace("\x1b", "\ufffd")
        return re.sub("[\udc80-\udcff]", "\ufffd", text)

    def check(self, rows, columns, wanted):
        words = "\n".join(self.draw(rows, columns, cwd=self.dir).words())
        for text in wanted:
            self.assertIn(self.shown(text), words)
        for ending in ("png", "pdf"):
            self.kiln("plot", "t.csv", "t." + ending, cwd=self.dir)
        self.assertFalse(os.path.exists(self.path("touched")))

    def test_no_text_is_code(self):
        for i in range(len(self.HOSTILE)):
            op, model, problem = self.text(i), self.text(i + 1), self.text(i + 2)
            rows = variants(op="x", model=model)
            for row in rows:
                row["op"] = op
                row["problem"] = row.get("problem") and problem
            self.check(rows, COLUMNS, [op, model])

    def test_no_parameter_is_code(self):
        for bad in ("`touch`", "@W", "100%d", "a_{b}^2", "'x", '"x', "\\042x", "$(x)", "<&amp;>"):
            rows = variants()
            for row in rows:
                row["spec"] = row["spec"].replace("block=64", f"block={bad}").replace("elems=", f"{bad.replace('=', '')}=")
            self.check(rows, COLUMNS, [bad])

    def test_no_line_is_code(self):
        for i in range(len(self.HOSTILE)):
            rows = sizes(ops=(self.text(i), "add"))
            self.check(rows, SIZE_COLUMNS, [self.text(i) + " f32"])

    def test_no_name_of_a_file_is_code(self):
        name = "a'b\"c`touch touched`@W %d $(touch touched);.svg"
        self.write("t.csv", table(variants()))
        self.kiln("plot", "t.csv", name, cwd=self.dir)
        self.assertEqual(sorted(os.listdir(self.dir)), sorted(["t.csv", name]))

    def test_long_texts_are_cut(self):
        picture = self.draw(variants("x" * 500))
        cut = [text for text in picture.words() if text.endswith("\u2026")]
        self.assertGreater(len(cut), 0)
        self.assertTrue(all(len(text) < 160 for text in cut))
        self.assertLess(picture.width, 1000)


class Failures(Drawing):
    BROKEN = "echo 'line 7: it broke' >&2\nprintf '<?xml half'\nexit 1\n"

    def sweep(self, *args, **options):
        return self.kiln("sweep", SPEC, "--size", "2^10", "--rounds", "1", *args, cwd=self.dir, **options)

    def setUp(self):
        super().setUp()
        self.kiln("sweep", SPEC, "--size", "2^10", "--rounds", "1")  # so that the kernels are in the cache

    def test_without_gnuplot_nothing_is_measured(self):
        env = self.gnuplot(None)
        for command in (["sweep", SPEC, "--size", "2^10"], ["tune", SPEC], ["bench", SPEC]):
            self.assert_bad([*command, "--csv", self.path("t.csv"), "--plot", self.path("t.png")], "no gnuplot on PATH", "gnuplot-nox",
                            "kiln plot FILE.csv", env=env)
        self.write("u.csv", table(variants()))
        self.assert_bad(["plot", self.path("u.csv"), self.path("t.png")], "gnuplot-nox", env=env)
        self.assertEqual(sorted(os.listdir(self.dir)), ["bin", "cache", "u.csv"])

    def test_a_gnuplot_that_lacks_the_format(self):
        env = self.gnuplot("")
        with open(self.path("bin/gnuplot"), "w", encoding="ascii") as file:
            file.write("#!/bin/sh\necho 'line 2: unknown or ambiguous terminal name' >&2\nexit 1\n")
        self.assert_bad(["sweep", SPEC, "--size", "2^10", "--plot", self.path("t.pdf")], "cannot make pdf", "unknown or ambiguous terminal",
                        env=env)

    def test_a_failing_gnuplot_costs_nothing_but_the_picture(self):
        for script, words in ((self.BROKEN, "line 7: it broke"), ("kill -9 $$\n", "killed by signal 9"), ("exit 3\n", "exit status 3"),
                              ("echo hello\n", "its output is no svg"), ("", "its output is no svg")):
            env = self.gnuplot(script)
            self.write("t.svg", "old")
            result = self.sweep("--csv", "t.csv", "--plot", "t.svg", status=1, env=env)
            self.assertIn("winner", result.stdout)
            lines = [line for line in result.stderr.splitlines() if line.startswith("kiln: ")]
            self.assertEqual(len(lines), 1, result.stderr)
            for word in ("t.svg: no picture was drawn", words, "'kiln plot t.csv t.svg'"):
                self.assertIn(word, lines[0])
            self.assertEqual(self.read("t.svg"), b"old")
            self.assertEqual(sorted(os.listdir(self.dir)), ["bin", "cache", "t.csv", "t.svg"])
            self.kiln("plot", "t.csv", "t.svg", cwd=self.dir)
            self.assertIn("relu6 f32", " ".join(Picture(self.read("t.svg")).words()))

    def test_rows_are_kept_without_a_table(self):
        result = self.sweep("--plot", "t.png", status=1, env=self.gnuplot(self.BROKEN))
        self.assertIn("'kiln plot t.png.csv t.png'", result.stderr)
        self.assertEqual(sorted(os.listdir(self.dir)), ["bin", "cache", "t.png.csv"])
        self.kiln("plot", "t.png.csv", "t.png", cwd=self.dir)
        for command in (["tune", SPEC, "--budget", "1"], ["bench", SPEC, "--size", "2^10", "--rounds", "1"]):
            os.remove(self.path("t.png.csv"))
            result = self.kiln(*command, "--plot", "t.png", status=1, env=self.gnuplot(self.BROKEN), cwd=self.dir)
            self.assertIn("'kiln plot t.png.csv t.png'", result.stderr)
            self.kiln("plot", "t.png.csv", "t.png", cwd=self.dir)

    def test_the_results_as_json_are_printed_all_the_same(self):
        result = self.sweep("--json", "--plot", "t.svg", "--csv", "t.csv", status=1, env=self.gnuplot(self.BROKEN))
        self.assertTrue(result.stdout.startswith('{"results'), result.stdout)
        result = self.sweep("--csv", "-", "--plot", "t.svg", status=1, env=self.gnuplot(self.BROKEN))
        self.assertTrue(result.stdout.startswith("device,model"), result.stdout)
        self.assertIn("the rows are on standard output", result.stderr)

    def test_a_failing_plot_leaves_the_old_picture(self):
        self.write("t.csv", table(variants()))
        self.write("t.svg", "old")
        result = self.kiln("plot", "t.csv", "t.svg", status=1, env=self.gnuplot(self.BROKEN), cwd=self.dir)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertIn("line 7: it broke", result.stderr)
        self.assertEqual(self.read("t.svg"), b"old")
        self.assertEqual(sorted(os.listdir(self.dir)), ["bin", "cache", "t.csv", "t.svg"])

    def test_a_new_picture_keeps_the_mode_of_the_old(self):
        self.write("t.svg", "old")
        os.chmod(self.path("t.svg"), 0o640)
        self.draw(variants())
        self.assertEqual(stat.S_IMODE(os.stat(self.path("t.svg")).st_mode), 0o640)

    def test_interrupted_while_gnuplot_draws(self):
        env = dict(self.gnuplot("sleep 3\n"), TMPDIR=self.path("tmp"))
        os.mkdir(self.path("tmp"))
        self.write("t.csv", table(variants()))
        process = subprocess.Popen([KILN, "plot", "t.csv", "t.svg"], env=env, cwd=self.dir)
        time.sleep(1)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=30), -signal.SIGTERM)
        self.assertEqual(sorted(os.listdir(self.dir)), ["bin", "cache", "t.csv", "tmp"])
        self.assertEqual(os.listdir(self.path("tmp")), [])


class Measured(Drawing):
    def test_the_picture_of_a_sweep_is_that_of_its_table(self):
        self.kiln("sweep", SPEC + " block=512,1024", "--size", "2^14", "--rounds", "4", "--csv", "t.csv", "--plot", "t.svg", cwd=self.dir)
        now = self.read("t.svg")
        self.kiln("plot", "t.csv", "t.svg", cwd=self.dir)
        self.assertEqual(self.read("t.svg"), now)
        with open(self.path("t.csv"), newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        words = Picture(now).words()
        best = max((float(row["gbps"]) for row in rows if row["gbps"]))
        decimals = 0 if best >= 100 else 1 if best >= 10 else 2
        self.assertTrue(any(text.startswith(f"best: {best:.{decimals}f} GB/s with block ") for text in words), words)
        self.assertGreater(float(rows[0]["ceiling_gbps"]), 0)
        self.assertTrue(math.isclose(float(rows[0]["ceiling_gbps"]), float(rows[-1]["ceiling_gbps"])))

    def test_tuning_and_benchmarks_are_drawn_later_too(self):
        self.kiln("tune", SPEC, "--size", "2^14", "--budget", "1", "--csv", "t.csv", "--plot", "t.svg", cwd=self.dir)
        now = self.read("t.svg")
        self.kiln("plot", "t.csv", "t.svg", cwd=self.dir)
        self.assertEqual(self.read("t.svg"), now)
        self.kiln("bench", SPEC, "--size", "2^10..2^12", "--rounds", "3", "--csv", "b.csv", "--plot", "b.svg", cwd=self.dir)
        now = self.read("b.svg")
        self.kiln("plot", "b.csv", "b.svg", cwd=self.dir)
        self.assertEqual(self.read("b.svg"), now)


if __name__ == "__main__":
    unittest.main()
