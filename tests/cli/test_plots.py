"""Plots and tables, drawn by draw_fixed from fixed data: what is in them, equal bytes, escaping, and where they go."""

import csv
import io
import os
import re
import shutil
import subprocess
import unittest
import xml.etree.ElementTree as ET

from support import KilnTest

DRAW = os.environ.get("KILN_DRAW_FIXED", "draw_fixed")
SVG = "{http://www.w3.org/2000/svg}"
PLOTS = ("heatmap", "panels", "awkward", "nothing", "lineplot", "ratios", "no-series", "above", "sweep", "two-sweeps",
         "no-sweep", "references")


class Drawing(KilnTest):
    def draw(self, name, path="-", status=0, env=None, **options):
        result = subprocess.run([DRAW, name, path], env=env or self.env, stdin=subprocess.DEVNULL, timeout=60,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.dir, check=False, **options)
        self.assertEqual(result.returncode, status, result.stderr)
        return result

    def svg(self, name):
        return ET.fromstring(self.draw(name).stdout)

    def texts(self, root):
        """What is written in the picture, without tooltips."""
        return ["".join([element.text or "", *(child.tail or "" for child in element)])
                for element in root.iter(SVG + "text")]

    def tooltips(self, root):
        return [element.text for element in root.iter(SVG + "title")]

    def cells(self, root):
        """Colour, tooltip and group by the tooltip's geometry."""
        found = {}
        for group in root.iter(SVG + "g"):
            name, text = group.find(SVG + "title").text.split(": ", 1)
            found[name] = (group.find(SVG + "rect").get("fill"), text, group)
        return found


def luminance(colour):
    codes = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    light = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in codes]
    return 0.2126 * light[0] + 0.7152 * light[1] + 0.0722 * light[2]


class AnyPlot(Drawing):
    def test_well_formed_and_alone(self):
        for name in PLOTS:
            data = self.draw(name).stdout
            root = ET.fromstring(data)
            self.assertEqual((root.tag, root.get("version")), (SVG + "svg", "1.1"))
            size = root.get("viewBox").split()[2:]
            self.assertEqual(size, [root.get("width"), root.get("height")])
            self.assertEqual({element.tag.removeprefix(SVG) for element in root.iter()}
                             - {"svg", "g", "rect", "line", "path", "circle", "text", "title", "defs", "linearGradient",
                                "stop"}, set())
            self.assertNotRegex(data, rb"nan|inf\b|href|http://(?!www\.w3\.org/2000/svg)")
            background = root.find(SVG + "rect")
            self.assertEqual(background.get("fill"), "#ffffff")
            self.assertAlmostEqual(float(background.get("width")), float(size[0]) - 1, 2)

    def test_everything_is_on_the_card(self):
        for name in PLOTS:
            root = self.svg(name)
            width, height = float(root.get("width")), float(root.get("height"))
            for element in root.iter():
                for attribute, limit in (("x", width), ("x1", width), ("x2", width), ("cx", width), ("y", height),
                                         ("y1", height), ("y2", height), ("cy", height)):
                    if element.get(attribute) and element.tag != SVG + "linearGradient":
                        self.assertTrue(0 <= float(element.get(attribute)) < limit, (name, element.attrib))

    def test_equal_bytes(self):
        for name in PLOTS + ("csv",):
            self.assertEqual(self.draw(name).stdout, self.draw(name).stdout)

    def test_equal_bytes_in_another_locale(self):
        localedef = shutil.which("localedef")
        if not localedef:
            self.skipTest("no localedef")
        made = subprocess.run([localedef, "-i", "de_DE", "-f", "UTF-8", self.path("de_DE.UTF-8")], check=False,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        env = dict(self.env, LOCPATH=self.dir, LC_ALL="de_DE.UTF-8")
        if made.returncode or self.draw("locale", env=env).stdout != b"0,5":
            self.skipTest("no sources of locales")
        for name in PLOTS + ("csv",):
            self.assertEqual(self.draw(name, env=env).stdout, self.draw(name).stdout)


class Heatmap(Drawing):
    def test_cells(self):
        root = self.svg("heatmap")
        cells = self.cells(root)
        self.assertEqual(len(cells), 2 * 36)
        _, text, group = cells["block 256, elems 8, cache hint none"]
        self.assertEqual(text, "4280 GB/s, 101.0 % of memory copy")
        self.assertEqual(self.texts(group), ["4280"])
        texts = self.texts(root)
        for text in ("hardsigmoid: speed by geometry", "NVIDIA H200, cuda:0, sm_90", "cache hint none", "cache hint cs",
                     "block", "elems", "1024", "32", "GB/s", "4237", "memory copy",
                     "best: 4280 GB/s with block 256, elems 8, cache hint none"):
            self.assertIn(text, texts)

    def test_colours(self):
        root = self.svg("heatmap")
        stops = [stop.get("stop-color") for stop in root.iter(SVG + "stop")]
        light = [luminance(stop) for stop in stops]
        self.assertEqual(light, sorted(set(light)))
        cells = self.cells(root)
        # Above the ceiling there is one colour, the scale's last.
        self.assertEqual({fill for fill, text, _ in cells.values() if re.search(r" 10\d\.\d %", text)}, {stops[-1]})
        self.assertEqual(min(luminance(fill) for fill, text, _ in cells.values() if "GB/s" in text),
                         luminance(cells["block 32, elems 1, cache hint cs"][0]))

    def test_far_above_the_ceiling_colours_go_on(self):
        cells = self.cells(self.svg("above"))
        self.assertEqual(len({fill for fill, _, _ in cells.values()}), 3)
        self.assertIn("plain copy", self.texts(self.svg("above")))

    def test_numbers_can_be_read(self):
        for fill, _, group in self.cells(self.svg("heatmap")).values():
            for text in group.iter(SVG + "text"):
                light = sorted((luminance(fill) + 0.05, luminance(text.get("fill")) + 0.05))
                self.assertGreater(light[1] / light[0], 4)

    def test_impossible_and_not_measured(self):
        root = self.svg("heatmap")
        cells = self.cells(root)
        _, text, group = cells["block 1024, elems 32, cache hint cs"]
        self.assertEqual(text, "block 1024 with elems 32 needs 72 registers: at most 64 fit")
        self.assertEqual(len(list(group.iter(SVG + "path"))), 1)
        _, text, group = cells["block 1024, elems 16, cache hint cs"]
        self.assertEqual(text, "not measured")
        self.assertEqual(list(group.iter(SVG + "path")), [])
        self.assertIn("impossible; the tooltip says why", self.texts(root))
        self.assertNotIn("impossible; the tooltip says why", self.texts(self.svg("panels")))

    def test_best_is_outlined(self):
        root = self.svg("heatmap")
        cell = self.cells(root)["block 256, elems 8, cache hint none"][2].find(SVG + "rect")
        outlines = [rect for rect in root.iter(SVG + "rect") if rect.get("stroke-width") == "2.5"]
        self.assertEqual(len(outlines), 2)  # and the legend's
        for side in ("x", "y"):
            self.assertAlmostEqual(float(outlines[0].get(side)), float(cell.get(side)) - 1.5, 2)

    def test_many_panels(self):
        root = self.svg("panels")
        self.assertEqual(len(self.cells(root)), 6 * 400)
        self.assertLess(float(root.get("height")), 1500)
        self.assertEqual(self.texts(root).count("vector 6"), 1)
        places = {(group.find(SVG + "rect").get("x"), group.find(SVG + "rect").get("y"))
                  for _, _, group in self.cells(root).values()}
        self.assertEqual(len(places), 6 * 400)

    def test_escaping(self):
        data = self.draw("awkward").stdout.decode()
        root = ET.fromstring(data)
        self.assertIn("a<b & \"c\"", self.texts(root))
        self.assertIn("\uFFFD\uFFFD", self.texts(root))
        self.assertIn("\u00e9l\u00e9ments < 2 & \uFFFD\uFFFD\uFFFD", self.texts(root))
        tooltips = self.tooltips(root)
        self.assertIn("r 1, c a<b & \"c\": <no> & \"why\"\nsecond line", tooltips)
        self.assertIn("r 1, c \uFFFD\uFFFD: 12.3 GB/s\nspec & more", tooltips)
        cut = [text for text in self.texts(root) if text.endswith("\u2026") and 80 < len(text) < 160]
        self.assertEqual(len(cut), 1)
        self.assertTrue(any(text.startswith(cut[0][:-1]) for text in tooltips))

    def test_nothing(self):
        self.assertIn("nothing was measured", self.texts(self.svg("nothing")))
        self.assertIn("nothing was measured", self.texts(self.svg("no-series")))


class Trialmap(Drawing):
    def test_a_cell_has_the_best_of_its_variants(self):
        root = self.svg("sweep")
        cells = self.cells(root)
        self.assertEqual(len(cells), 5 * 6)
        _, text, group = cells["block 256, elems 8"]
        self.assertEqual(text, "4280 GB/s, 101.0 % of plain copy\nvector=4 cache=plain, the best of 5")
        self.assertEqual(self.texts(group), ["4280"])
        _, text, _ = cells["block 64, elems 32"]
        self.assertEqual(text, "elems must be a multiple of vector")
        # The first variant of block 64, elems 1 is wrong; the other one counts.
        _, text, group = cells["block 64, elems 1"]
        self.assertIn("vector=1 cache=stream", text)
        texts = self.texts(root)
        for text in ("hardsigmoid f32: speed by geometry", "NVIDIA H200 (cuda:0, sm_90)",
                     "2^28 elements, 2.0 GiB read and written by a launch", "plain copy", "4237",
                     "104 variants measured, each checked bit for bit; in each cell the best over vector and cache",
                     "best: 4280 GB/s with block 256, elems 8 (vector=4 cache=plain, the best of 5)"):
            self.assertIn(text, texts)

    def test_kinds_have_panels(self):
        root = self.svg("two-sweeps")
        texts = self.texts(root)
        for text in ("Speed by geometry", "hardsigmoid f32", "relu6 f32", "fastest plain copy"):
            self.assertIn(text, texts)
        self.assertEqual(len(self.cells(root)), 2 * 5 * 6)

    def test_nothing(self):
        self.assertIn("nothing was measured", self.texts(self.svg("no-sweep")))


class Lineplot(Drawing):
    def test_axes(self):
        texts = self.texts(self.svg("lineplot"))
        for text in ("2\u00b9\u2070", "8 KiB", "2\u00b2\u2074", "128 MiB", "2\u00b3\u2070", "8 GiB", "0", "8000",
                     "GB/s"):
            self.assertIn(text, texts)
        self.assertIn("1.00", self.texts(self.svg("ratios")))

    def test_points(self):
        root = self.svg("lineplot")
        tooltips = self.tooltips(root)
        for name, count in (("tuned", 21), ("block 256, elems 1", 20), ("two kernels, not fused", 21),
                            ("memory copy", 0)):
            self.assertEqual(sum(text.startswith(name + "\nsize ") for text in tooltips), count)
        circles = [circle for circle in root.iter(SVG + "circle") if circle.find(SVG + "title") is not None]
        x = [float(circle.get("cx")) for circle in circles]
        steps = [b - a for a, b in zip(x, x[1:])]
        self.assertLess(max(steps) - min(steps), 0.03)
        highest = min(circles, key=lambda circle: float(circle.get("cy")))
        self.assertRegex(highest.find(SVG + "title").text, r"size 16777216, 128 MiB: 6\d{3} GB/s \(6\d{3} to 6\d{3}\)")

    def test_gap_and_styles(self):
        groups = list(self.svg("lineplot").iter(SVG + "g"))
        lines = [[path for path in group.iter(SVG + "path") if path.get("stroke-linejoin")][0] for group in groups]
        self.assertEqual([path.get("d").count("M") for path in lines], [1, 2, 1, 1])
        self.assertEqual(len({path.get("stroke") for path in lines}), 4)
        self.assertEqual([path.get("stroke-dasharray") is not None for path in lines], [False, False, False, True])

    def test_references_are_told_apart(self):
        paths = [path for path in self.svg("references").iter(SVG + "path") if path.get("stroke-dasharray")]
        self.assertEqual(len({path.get("stroke-dasharray") for path in paths}), 2)

    def test_spread_leaves_at_the_top(self):
        """One wild measurement does not press the rest down."""
        root = self.svg("ratios")
        self.assertIn("1.50", self.texts(root))
        self.assertNotIn("100", "".join(self.texts(root)))
        bars = next(root.iter(SVG + "g")).find(SVG + "path").get("d")
        self.assertEqual(bars.count("M"), 3 * 3 - 1)

    def test_legend_covers_nothing(self):
        root = self.svg("ratios")
        names = [text for text in root.iter(SVG + "text") if "another <series>" in (text.text or "")]
        self.assertEqual(len(names), 8)
        self.assertEqual(len({text.get("y") for text in names}), 8)
        right = max(float(line.get("x2")) for line in root.iter(SVG + "line") if not line.get("stroke-width"))
        self.assertTrue(all(float(text.get("x")) > right for text in names))
        self.assertIn("copy: 1.00", self.texts(root))


class Csv(Drawing):
    def test_rows(self):
        data = self.draw("csv").stdout.decode()
        self.assertEqual(data.count("\r\n"), 4)
        rows = list(csv.reader(io.StringIO(data, newline="")))
        self.assertEqual(rows, [["spec", "elements", "GB/s", "note"],
                                ["op=hardtanh(-1,1) dtype=f32", str(2**64 - 1), "4237.1", "said \"no\"\nand left"],
                                ["", "0", "", " "],
                                ["1e-300", "-0.1", repr(1 / 3), "1e+22"]])
        self.assertTrue(data.startswith("spec,elements,GB/s,note\r\n\"op=hardtanh(-1,1) dtype=f32\",1844"))
        self.assertIn("\r\n\"\",0,,\" \"\r\n", data)


class Files(Drawing):
    def test_file_is_what_stdout_gets(self):
        self.assertEqual(self.draw("heatmap", "a.svg").stdout, b"")
        with open(self.path("a.svg"), "rb") as file:
            self.assertEqual(file.read(), self.draw("heatmap").stdout)
        self.assertEqual(os.listdir(self.dir), ["a.svg"])

    def test_what_cannot_be_written(self):
        os.mkdir(self.path("there"))
        for path in ("there", "there/", "none/a.svg", ""):
            lines = self.draw("heatmap", path, status=2).stderr.decode().splitlines()
            self.assertEqual(len(lines), 1)
            self.assertTrue(lines[0].startswith("kiln: ") and "cannot be written" in lines[0], lines[0])
        self.assertEqual(os.listdir(self.dir), ["there"])
        with open("/dev/full", "wb") as full:
            result = subprocess.run([DRAW, "csv", "-"], env=self.env, cwd=self.dir, stdout=full, stderr=subprocess.PIPE,
                                    check=False)
        self.assertEqual(result.returncode, 2)
        self.assertEqual(result.stderr, b"kiln: standard output: cannot be written: No space left on device\n")

    def test_interrupt_removes_both_temporary_files(self):
        self.draw("interrupt", "first.svg", status=-15)
        self.assertEqual(os.listdir(self.dir), [])


if __name__ == "__main__":
    unittest.main()
