"""kiln build: CUDA files of the user's own."""
import os
import unittest

from support import KilnTest, compiler_builds_for_gpus

SOURCE = """#include "depth.h"
template <class T, int N> __global__ void scale(T *p) { __shared__ T room[64]; room[threadIdx.x] = *p;
    __syncthreads(); *p = room[N] * DEPTH; }
extern "C" __global__ void plain(int *p) { int unused; *p = DEPTH; }
"""


# A kernel that wants many registers: each step needs all values of the step before.
BOUNDS = "".join(f'''extern "C" __global__ void {bounds} {name}(float *p) {{
    float v[140];
    #pragma unroll
    for (int i = 0; i < 140; i++) v[i] = p[i * 32 + threadIdx.x];
    for (int k = 0; k < 9; k++) {{
        #pragma unroll
        for (int i = 0; i < 140; i++) v[i] = v[i] * v[139 - i] + p[k];
    }}
    #pragma unroll
    for (int i = 0; i < 140; i++) p[i * 32 + threadIdx.x] = v[i];
}}
''' for name, bounds in (("loose", ""), ("bound", "__launch_bounds__(256)"), ("tight", "__launch_bounds__(1024)"),
                         ("fixed", "__block_size__((128, 2, 1))")))


class Build(KilnTest):
    def setUp(self):
        super().setUp()
        if not compiler_builds_for_gpus(self):
            self.skipTest("no NVRTC")
        os.mkdir(self.path("inc"))
        self.write("inc/depth.h", "#define DEPTH 2\n")
        self.file = self.write("user.cu", SOURCE)
        self.args = ("build", self.file, "-I", self.path("inc"), "--target", "sm_90")

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def origin(self, *args):
        return self.kiln_json(*(args or self.args))["results"][0]["source"]

    def test_table_has_each_function_and_target(self):
        result = self.kiln(*self.args[:-1], "sm_80,sm_90", "-f", "scale<float, 4>", "-f", "plain")
        lines = [line.split("  ") for line in result.stdout.splitlines()]
        self.assertEqual(len(lines), 5)
        self.assertEqual([line[0] for line in lines], ["function", "scale<float, 4>", "plain", "scale<float, 4>", "plain"])
        self.assertIn(f'{self.file}(4): warning', result.stderr)
        rows = self.kiln_json(*self.args, "-f", "scale<float, 4>")["results"][0]["functions"]
        self.assertEqual(rows[0]["symbol"], "_Z5scaleIfLi4EEvPT_")
        self.assertEqual((rows[0]["shared_bytes"], rows[0]["stack_bytes"]), (256, 0))
        self.assertGreater(rows[0]["registers"], 3)

    def test_code_that_is_not_kept_is_a_failure(self):
        self.assertTrue(self.kiln_json(*self.args)["results"][0]["kept"])
        for env, args, reason in ((dict(self.env, KILN_CACHE_BYTES="1M"), (), "too large"),
                                  (self.env, ("--cache-dir", ""), "switched off"),
                                  (dict(self.env, KILN_ISOLATE="never"), ("never",), "in memory only")):
            words = self.args if args != ("never",) else ("build", self.plain(), "--target", "sm_90")
            args = args if args != ("never",) else ()
            other = ("--cache-dir", self.path("other")) if "--cache-dir" not in args else ()
            result = self.kiln(*words, *args, *other, env=env, status=1)
            self.assertIn("kiln: 1 compiled, 1 not kept: ", result.stderr)
            self.assertIn(reason, result.stderr)
        output = self.kiln_json(*self.args, "-o", self.path("x.cubin"), "--cache-dir", "")
        self.assertFalse(output["results"][0]["kept"])

    def plain(self):
        return self.write("plain.cu", 'extern "C" __global__ void plain(int *p) { *p = 1; }\n')

    def test_contents_decide(self):
        self.assertEqual(self.origin(), "compiled")
        self.assertEqual(self.origin(), "disk")
        os.utime(self.path("inc/depth.h"), (1, 1))
        self.assertEqual(self.origin(), "disk")
        os.rename(self.path("inc"), self.path("moved"))
        self.args = ("build", self.file, "-I", self.path("moved"), "--target", "sm_90")
        self.assertEqual(self.origin(), "disk")
        self.write("moved/depth.h", "#define DEPTH 3\n")
        self.assertEqual(self.origin(), "compiled")
        self.assertEqual(self.origin(*self.args, "-D", "OTHER=1"), "compiled")
        self.assertEqual(self.origin(*self.args, "--option=--use_fast_math"), "compiled")
        self.assertIn("headers of source=user.cu target=sm_90", self.kiln("cache", "list").stdout)

    def test_writes_code(self):
        self.kiln(*self.args, "-o", self.path("user.cubin"))
        with open(self.path("user.cubin"), "rb") as file:
            self.assertEqual(file.read(4), b"\x7fELF")
        self.assertIn(".entry plain", self.kiln(*self.args, "--ptx").stdout)
        self.assert_bad((*self.args[:-1], "sm_80,sm_90", "--ptx"), "one target")

    def test_mistakes_name_the_file_and_the_line(self):
        self.write("user.cu", SOURCE + "\n\n__device__ int x = ;\n")
        result = self.kiln(*self.args, status=1)
        self.assertIn(f"{self.file}(7): error: expected an expression", result.stderr.splitlines()[0])
        self.write("user.cu", SOURCE)
        self.assertEqual(self.kiln(*self.args, "-f", "scal<1>", status=1).stderr.splitlines()[0],
                         "kiln: the source has no function 'scal<1>': identifier \"scal\" is undefined; "
                         "its text has: scale<class T, int N>, plain")
        self.assert_bad((*self.args, "--option=-gen-opt-lto"), "-gen-opt-lto", "-dlto alone")
        self.assert_bad((*self.args, "-D", "1=2"), "define '1=2'")
        self.assert_bad((*self.args, "-I", self.path("none")), "none' cannot be used")
        self.assert_bad(("build", self.path("none.cu")), "cannot read", "none.cu")
        self.assert_bad(("build", self.file, "--target", "cpu"), "not for the cpu")
        self.assert_bad(("build", self.file, "--target", "sm_1"), "sm_1")
        self.assert_bad(("build",), "no FILE given")
        self.assert_bad(("build", self.write("empty.cu", "")), "empty")

    def test_several_files_are_linked(self):
        doctor = self.kiln_json("doctor", status=None)
        if not any(finding["what"] == "linker" and finding["ok"] for finding in doctor["findings"]):
            self.skipTest("no nvJitLink")
        caller = self.write("caller.cu", "extern __device__ int twice(int x);\n"
                                         "extern \"C\" __global__ void k(int *p) { *p = twice(*p); }\n")
        called = self.write("called.cu", "__device__ int twice(int x) { return 2 * x; }\n")
        several = ("build", caller, called, "--target", "sm_80,sm_90")
        for options in ((), ("--option=-dlto", "-f", "k")):
            for origin in ("compiled", "disk"):
                results = self.kiln_json(*several, *options)["results"]
                self.assertEqual([result["source"] for result in results], [origin, origin])
                self.assertEqual([function["function"] for function in results[0]["functions"]], ["k"])
        self.assertIn("Undefined reference to '_Z5twicei' in 'caller.cu'",
                      self.kiln("build", caller, "--option=-dc", "--target", "sm_90", status=1).stderr)
        self.assert_bad((*several, self.write("empty.cu", "")), "empty.cu is empty")
        self.kiln(*several[:-1], "sm_90", "--ptx", status=1)

    def test_options_of_the_compiler_stand_alone(self):
        plain = ("build", self.plain(), "-arch", "sm_90")
        self.assertEqual(self.origin(*plain), "compiled")
        result = self.kiln(*plain, "-O3", "--expt-relaxed-constexpr", "-Xcompiler", "-fPIC")
        self.assertIn("option -O3 is left out: NVRTC always optimizes", result.stderr)
        self.assertIn("  disk", result.stdout)
        self.assertIn("option -O3", self.kiln_json(*plain, "-O3")["results"][0]["log"])
        for spelling in (("-std=c++17", "--maxrregcount", "100"), ("--option=--std=c++17", "-maxrregcount=100"),
                         ("--std", "c++17", "--option", "--maxrregcount", "--option", "100")):
            origin = self.origin(*plain, *spelling)
            self.assertEqual(origin, "compiled" if spelling[0] == "-std=c++17" else "disk")
        self.kiln("show", plain[1], "-std=c++17", "--gpu-architecture=sm_90", "--ptx")
        self.assertIn("many times slower", self.kiln(*plain, "-G").stderr)
        self.write("macro.h", "")
        named = self.write("macro.cu", '#include "macro.h"\nextern "C" __global__ void k(int *p) { *p = A + B; }\n')
        self.kiln("build", named, "--define-macro=A=1", "--define-macro", "B=2", "--include-path", os.path.dirname(named),
                  "-arch=sm_90")
        self.assert_bad((*plain, "--target", "sm_80"), "names sm_90 and the target is sm_80")
        self.assert_bad((*plain, "--maxrregcount"), "--maxrregcount needs a value")
        self.assert_bad((*plain, "--maxrregcount", "many"), "expected =NUMBER")
        self.assert_bad((*plain, "-target", "sm_80"), "unknown option -target: did you mean --target?")
        self.assert_bad((*plain, "-xyz"), "unknown option -xyz;")
        self.assert_bad(("run", "op=relu6", "-std=c++17"), "unknown option -std=c++17;")

    def test_names_of_functions(self):
        file = self.write("names.cu", "struct P { int a, b; };\n"
                                      "template <P p> __global__ void k(int *o) { *o = p.a * p.b; }\n"
                                      "template <char C> __global__ void c(int *o) { *o = C; }\n")
        names = ("-f", "k<P{1, 2}>", "-f", "c<';'>", "-f", "c<';'>")
        result = self.kiln_json("build", file, "-std=c++20", "--target", "sm_90", *names)["results"][0]
        self.assertEqual([function["function"] for function in result["functions"]], ["k<P{1, 2}>", "c<';'>"])

    def build_from_stdin(self, text, *args, **options):
        with open(self.write("stdin", text), "rb") as file:
            return self.kiln("build", "-", "--target", "sm_90", *args, stdin=file, **options)

    def test_standard_input(self):
        result = self.build_from_stdin('extern "C" __global__ void k(int *p) { *p = y; }\n', status=1)
        self.assertIn("<stdin>(1): error: identifier", result.stderr)
        self.build_from_stdin('extern "C" __global__ void k(int *p) { *p = 1; }\n')

    def test_errors_are_told_in_json_too(self):
        file = self.write("bad.cu", 'extern "C" __global__ void k(int *p) { *p = y; }\n')
        self.assertEqual(self.kiln("build", file, "--target", "sm_90", "--json", status=1).stderr.count("undefined"), 2)
        result = self.kiln_json("build", file, "--target", "sm_90", status=1)["results"][0]
        self.assertEqual((result["target"], result["status"]), ("sm_90", "KILN_ECOMPILE"))
        self.assertIn(f'{file}(1): error: identifier "y" is undefined', result["message"])
        self.assertIn("1 error detected", result["log"])

    def test_other_targets_go_on_after_a_failure(self):
        file = self.write("new.cu", "#if __CUDA_ARCH__ < 900\n#error too old\n#endif\n"
                                    'extern "C" __global__ void k(int *p) { *p = 1; }\n')
        result = self.kiln("build", file, "--target", "sm_75,sm_90,sm_80,sm_31", status=1)
        self.assertEqual([line.split()[1] for line in result.stdout.splitlines()], ["target", "sm_90"])
        failures = [line for line in result.stderr.splitlines() if line.startswith("kiln: ")]
        self.assertEqual([line.split(": ")[1] for line in failures], ["sm_75", "sm_80", "sm_31"])
        results = self.kiln_json("build", file, "--target", "sm_75,sm_90", status=1)["results"]
        self.assertEqual([result.get("status", "built") for result in results], ["KILN_ECOMPILE", "built"])
        both = ("build", file, "-I", self.path("none"), "--target", "sm_75,sm_90")
        self.assertEqual(self.kiln(*both, status=2).stderr.count("none' cannot be used"), 1)

    def test_native_target_needs_a_gpu(self):
        for command in ("build", "show"):
            self.assert_bad((command, self.plain(), "--target", "native", "--device", "cpu"),
                            "the device is the cpu: name a target such as sm_90")

    def test_limits_of_the_worker(self):
        endless = self.write("endless.cu", "template <int N> struct T { static const int v = T<N - 1>::v + T<N - 2>::v; };\n"
                                           "template <> struct T<1> { static const int v = 1; };\n"
                                           "constexpr int f(int n) { return n < 2 ? n : f(n - 1) + f(n - 2); }\n"
                                           'extern "C" __global__ void k(int *p) { *p = 0; ' +
                             "".join(f"for (int i = 0; i < p[{n}]; i++) p[i * {n}] += p[i + {n}];\n" for n in range(9000)) +
                             "}\n")
        result = self.kiln("build", endless, "--target", "sm_90", "--worker-time", "1", status=1)
        self.assertIn("did not finish within 1 s", result.stderr)
        self.assertIn("raise worker_time_ms (kiln build --worker-time)", result.stderr)
        if not os.environ.get("KILN_SANITIZE"):  # sanitizers reserve terabytes, so that nothing bounds a worker's memory
            result = self.kiln("build", endless, "--target", "sm_90", "--worker-memory", "256", status=1)
            self.assertIn("memory", result.stderr)
        self.assert_bad((*self.args, "--worker-memory", "1"), "too little")
        self.assert_bad((*self.args, "--worker-time", "0"), "--worker-time 0 is not a positive whole number")

    def test_show(self):
        show = ("show", *self.args[1:], "-f", "scale<float, 4>")
        rows = self.kiln_json(*show, "--block", "64")["resources"]
        self.assertEqual(rows[0]["name"], "scale<float, 4>")
        self.assertEqual((rows[0]["shared_bytes"], rows[0]["stack_bytes"]), (256, 0))
        self.assertEqual(rows[0]["occupancy"], [{"block": 64, "blocks": 32, "threads": 32 * 64, "fraction": 1, "limit": "threads",
                                                 "problem": None}])
        self.assertIn("32 blocks of 32 threads on a multiprocessor, 1024 of 2048 threads (50%), limited by blocks",
                      self.kiln(*show, "--block", "32", "--resources").stdout)
        other = self.kiln("show", self.file, "-I", self.path("inc"), "--target", "sm_110", "--resources", status=None)
        if other.returncode == 0:
            self.assertIn("occupancy  plain: -", other.stdout)
        self.assertIn(".entry _Z5scale", self.kiln(*show, "--ptx").stdout)
        self.assertEqual(self.kiln(*show, "--source").stdout, SOURCE)
        self.assert_bad(("show", "op=relu6", "--target", "sm_90"), "is a spec", "write target=sm_90")
        self.assert_bad(("show", self.path("none.cu")), "cannot be read", "none.cu")
        spec = self.kiln_json("show", "op=relu6 dtype=f32 block=256 target=sm_90")["resources"][0]
        self.assertEqual((spec["name"], spec["occupancy"][0]["block"]), ("kiln_vector", 256))

    def test_bounds_of_blocks(self):
        """Each function has its bounds; ptxas gives it the registers, 255 without bounds and 64 for 1024 threads."""
        file = self.write("bounds.cu", BOUNDS)
        show = ("show", file, "--target", "sm_90", "--resources")
        rows = {row["name"]: row for row in self.kiln_json(*show, "--block", "128,256..1024,2048")["resources"]}
        self.assertEqual({name: row["max_threads"] for name, row in rows.items()},
                         {"loose": 1024, "bound": 256, "tight": 1024, "fixed": 256})
        self.assertEqual([one["block"] for one in rows["loose"]["occupancy"]], [128, 256, 512, 1024, 2048])
        problems = {name: [one["problem"] for one in row["occupancy"]] for name, row in rows.items()}
        bound, fixed, gpus = "its __launch_bounds__ are 256 threads", "its __block_size__ has 256 threads", "no GPU takes more than 1024 threads"
        self.assertEqual(problems["bound"], [None, None, bound, bound, bound])
        self.assertEqual(problems["fixed"], [fixed, None, fixed, fixed, fixed])
        self.assertEqual(problems["tight"], [None] * 4 + [gpus])
        self.assertEqual(problems["loose"], [None, None, "too much registers", "too much registers", gpus])
        self.assertGreater(rows["loose"]["registers"], 128)
        self.assertLessEqual(rows["tight"]["registers"], 64)
        self.assertGreater(rows["tight"]["stack_bytes"], 0)
        for row in rows.values():
            for one in row["occupancy"]:
                self.assertEqual(one["blocks"] > 0, one["problem"] is None, one)

        table = self.kiln(*show, "--block", "256,512").stdout.splitlines()
        self.assertEqual(len(table), 1 + 2 * 4)
        self.assertTrue(any(line.endswith("impossible: " + bound) for line in table), table)
        usual = self.kiln(*show).stdout
        self.assertIn("occupancy  fixed: 1 block of 256 threads on a multiprocessor", usual)
        self.assertIn("a block of 512 threads is impossible: " + bound, self.kiln(*show, "--block", "512").stdout)
        for block in ("x", "0", "64..32", "64,"):
            self.assert_bad((*show, "--block", block), f"--block {block}", "128,256,512")

    def test_specs_are_compared(self):
        shown = self.kiln_json("show", "op=relu6", "dtype=f32,f64", "block=128..512*2", "target=sm_90", "--resources")["results"]
        self.assertEqual([[word for word in row["spec"].split() if word.startswith(("dtype", "block"))] for row in shown],
                         [[f"dtype={dtype}", f"block={block}"] for dtype in ("f32", "f64") for block in (128, 256, 512)])
        for row in shown:
            block = int(row["spec"].split("block=")[1].split()[0])
            for function in row["resources"]:
                self.assertEqual(([one["block"] for one in function["occupancy"]], function["max_threads"]), ([block], block))
        table = self.kiln("show", "op=relu6 dtype=f32 block=128,256 target=sm_90", "--resources").stdout.splitlines()
        self.assertEqual(len(table), 1 + 2 * len(shown[0]["resources"]))
        self.assert_bad(("show", "op=relu6", "--block", "128,256"), "write target=sm_90 and block=128,256")
        self.assertIn("none to speak of", self.kiln("show", "op=relu6 block=64,128 target=cpu", "--resources").stdout)

    def test_reads_nothing_else(self):
        self.write("secret.h", "SECRET stuff\n")
        os.makedirs(self.path("src"))
        for path in ("../secret.h", self.path("secret.h"), "/etc/passwd"):
            for args in (("-I", self.path("inc")), ()):
                file = self.write("src/user.cu", f'#include "{path}"\n')
                result = self.kiln("build", file, *args, "--target", "sm_90", status=1)
                self.assertNotIn("SECRET", result.stderr)
                self.assertNotIn("root:", result.stderr)

    def test_headers_beside_the_file(self):
        os.makedirs(self.path("src/sub"))
        self.write("src/limits.h", "#include <limits.h>\n#include \"sub/n.h\"\n#define MINE (INT_MAX + N)\n")
        self.write("src/sub/n.h", "#define N 1\n")
        text = '#include "limits.h"\nextern "C" __global__ void k(int *p) { *p = MINE; }\n'
        file = self.write("src/k.cu", text)
        self.assertIn("compiled", self.kiln("build", file, "--target", "sm_90").stdout)
        self.assertIn("disk", self.kiln("build", "k.cu", "--target", "sm_90", cwd=self.path("src")).stdout)
        for directory, status in ((self.path("src"), 0), (self.dir, 1)):
            with open(file, "rb") as stream:
                self.kiln("build", "-", "--target", "sm_90", stdin=stream, cwd=directory, status=status)
        self.write("src/sub/n.h", "#define N 2\n")
        self.assertIn("compiled", self.kiln("build", file, "--target", "sm_90").stdout)
        self.assertIn(".entry k", self.kiln("show", file, "--target", "sm_90", "--ptx").stdout)
        self.write("src/sub/n.h", "bad\n")
        message = self.kiln("build", file, "--target", "sm_90", status=1).stderr
        self.assertIn("src/sub/n.h(1): error", message)
        self.assertNotIn("/kiln/", message)


if __name__ == "__main__":
    unittest.main()
