/* 64 processes want one kernel that nobody has, at the same moment, again and again: one of them compiles it. With the
 * compiling one killed in the middle: one more does.
 *
 *     fault_stampede [ROUNDS]     50 by default; every fourth as many again with a kill */
#include "os/cpu.h"
#include <dirent.h>
#include <ftw.h>
#include <kiln/kiln.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROCESSES = 64, COMPILE_MS = 40, LINES_MAX = 256 };

static char root[] = "/tmp/kiln-stampede.XXXXXX";
static char store[64], log_path[64];
static atomic_int *go; /* shared: 0 wait, 1 run */

typedef struct line {
    int pid;
    unsigned long long ns;
} line;

typedef struct figures {
    int rounds, compiles, most, failures;
    double takeover_sum, takeover_max;
} figures;

static void die(const char *what)
{
    perror(what);
    exit(2);
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    (void)status;
    (void)kind;
    (void)place;
    return remove(path);
}

static int read_log(line *lines)
{
    int count = 0;
    FILE *file = fopen(log_path, "re");
    while (file != NULL && count < LINES_MAX && fscanf(file, "%d %llu", &lines[count].pid, &lines[count].ns) == 2)
        count++;
    if (file != NULL)
        fclose(file);
    return count;
}

/* One process of the herd. Ends it. */
static void want(int key)
{
    char text[80], tag[16];
    kiln_service *service;
    kiln_spec *spec = NULL;
    kiln_kernel *kernel = NULL;
    kiln_report report = KILN_INIT(kiln_report);
    kiln_options options = KILN_INIT(kiln_options);
    snprintf(text, sizeof(text), "op=hardtanh(-1,%d) dtype=f32 target=cpu", key + 2);
    snprintf(tag, sizeof(tag), "%d", (int)getpid());
    setenv("KILN_COUNTING_TAG", tag, 1);
    options.cache_dir = store;
    options.device = "cpu";
    options.cc = getenv("KILN_COUNTING_CC");
    kiln_status status = kiln_open(&service, &options, &report);
    if (status == KILN_OK)
        status = kiln_spec_parse(&spec, service, text, &report);
    while (atomic_load(go) == 0)
        usleep(200);
    if (status == KILN_OK)
        status = kiln_get_kernel(&kernel, service, spec, &report);
    if (status != KILN_OK)
        fprintf(stderr, "%s: %s\n", kiln_status_name(status), report.message);
    kiln_kernel_release(kernel);
    kiln_spec_free(spec);
    kiln_close(service);
    _exit(status == KILN_OK ? 0 : 1);
}

/* Kills the process that has begun to compile; returns it. */
static int kill_winner(unsigned long long *when)
{
    line lines[LINES_MAX];
    while (read_log(lines) == 0)
        usleep(500);
    usleep(COMPILE_MS * 1000 / 4);
    *when = kiln__cpu_now_ns();
    kill(lines[0].pid, SIGKILL);
    return lines[0].pid;
}

static void play(int key, bool murder, figures *out)
{
    pid_t pids[PROCESSES];
    line lines[LINES_MAX];
    unsigned long long killed_at = 0;
    int victim = 0;
    unlink(log_path);
    atomic_store(go, 0);
    for (int i = 0; i < PROCESSES; i++) {
        pids[i] = fork();
        if (pids[i] < 0)
            die("fork");
        if (pids[i] == 0)
            want(key);
    }
    usleep(30000);
    atomic_store(go, 1);
    if (murder)
        victim = kill_winner(&killed_at);
    for (int i = 0; i < PROCESSES; i++) {
        int status = 0;
        waitpid(pids[i], &status, 0);
        out->failures += status != 0 && pids[i] != victim;
    }
    int count = read_log(lines);
    out->rounds++;
    out->compiles += count;
    out->most = count > out->most ? count : out->most;
    if (murder && count > 1) {
        double ms = ((double)lines[1].ns - (double)killed_at) / 1e6;
        out->takeover_sum += ms;
        out->takeover_max = ms > out->takeover_max ? ms : out->takeover_max;
    }
}

static int count_litter(void)
{
    int count = 0;
    char path[80];
    snprintf(path, sizeof(path), "%s/v1", store);
    DIR *directory = opendir(path);
    for (struct dirent *entry; directory != NULL && (entry = readdir(directory)) != NULL;)
        count += strcmp(entry->d_name, "lock") == 0 || strncmp(entry->d_name, "tmp.", 4) == 0;
    if (directory != NULL)
        closedir(directory);
    return count - 1;
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 50;
    figures plain = { 0 }, killed = { 0 };
    char ms[16];
    if (rounds < 1 || argc > 2 || getenv("KILN_COUNTING_CC") == NULL || getenv("KILN_COUNTING_OBJECT") == NULL) {
        fprintf(stderr, "usage: fault_stampede [ROUNDS]\n"
                        "  with KILN_COUNTING_CC and KILN_COUNTING_OBJECT, as ctest -R fault_stampede sets them\n");
        return 2;
    }
    go = mmap(NULL, sizeof(*go), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (go == MAP_FAILED || mkdtemp(root) == NULL)
        die("set-up");
    snprintf(store, sizeof(store), "%s/store", root);
    snprintf(log_path, sizeof(log_path), "%s/compiles", root);
    snprintf(ms, sizeof(ms), "%d", COMPILE_MS);
    setenv("TMPDIR", root, 1);
    setenv("KILN_COUNTING_LOG", log_path, 1);
    setenv("KILN_COUNTING_MS", ms, 1);

    for (int round = 0; round < rounds; round++)
        play(round, false, &plain);
    for (int round = 0; round < (rounds + 3) / 4; round++)
        play(rounds + round, true, &killed);
    int litter = count_litter();
    nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);

    printf("%d processes, one key:            %d rounds, %d compiles, most in a round %d, failures %d\n",
           (int)PROCESSES, plain.rounds, plain.compiles, plain.most, plain.failures);
    printf("%d processes, the winner killed:  %d rounds, %d compiles, most in a round %d, failures %d\n",
           (int)PROCESSES, killed.rounds, killed.compiles, killed.most, killed.failures);
    printf("from the kill to the next compile's start: mean %.1f ms, most %.1f ms; litter %d files\n",
           killed.takeover_sum / killed.rounds, killed.takeover_max, litter);
    bool good = plain.compiles == plain.rounds && plain.most == 1 && plain.failures == 0 && killed.most <= 2 &&
                killed.failures == 0 && litter == 0;
    puts(good ? "good" : "BAD");
    return good ? 0 : 1;
}
