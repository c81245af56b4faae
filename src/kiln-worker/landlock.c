#include "kiln-worker/sandbox_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* As in <linux/landlock.h>, which may be older than the kernel that the program meets; the numbers of the calls are the
 * same on every architecture. */
enum { CREATE_RULESET = 444, ADD_RULE = 445, RESTRICT_SELF = 446, ASK_VERSION = 1, RULE_PATH_BENEATH = 1 };
enum { RIGHT_READ_FILE = 1 << 2, RIGHT_READ_DIR = 1 << 3 };

typedef struct ruleset {
    uint64_t files;   /* rights that are refused unless a rule gives them */
    uint64_t network; /* since version 4 */
    uint64_t scopes;  /* since version 6 */
} ruleset;

typedef struct path_beneath {
    uint64_t rights;
    int32_t fd;
} __attribute__((packed)) path_beneath;

/* Everything that a version knows. A kernel takes a longer struct than its own if the rest is zero. */
static ruleset everything(int version)
{
    int file_rights = version >= 5 ? 16 : version >= 3 ? 15 : version == 2 ? 14 : 13;
    return (ruleset){
        .files = (UINT64_C(1) << file_rights) - 1,
        .network = version >= 4 ? 3 : 0, /* bind and connect by TCP */
        .scopes = version >= 6 ? 3 : 0,  /* abstract sockets and signals, to processes outside */
    };
}

static bool add_rule(int rules, const char *path)
{
    struct stat status;
    path_beneath rule = { 0 };
    rule.fd = open(path, O_PATH | O_CLOEXEC);
    if (rule.fd < 0)
        return errno == ENOENT;
    rule.rights =
        fstat(rule.fd, &status) == 0 && S_ISDIR(status.st_mode) ? RIGHT_READ_FILE | RIGHT_READ_DIR : RIGHT_READ_FILE;
    bool added = syscall(ADD_RULE, rules, RULE_PATH_BENEATH, &rule, 0) == 0;
    close(rule.fd);
    return added;
}

static bool restrict_self(int rules, char *const *allowed)
{
    for (; *allowed != NULL; allowed++)
        if (!add_rule(rules, *allowed))
            return false;
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && syscall(RESTRICT_SELF, rules, 0) == 0;
}

bool kiln__landlock_enter(char *const *allowed, char *reason, size_t size)
{
    int version = (int)syscall(CREATE_RULESET, NULL, (size_t)0, ASK_VERSION);
    if (version < 1) {
        snprintf(reason, size, "this kernel has no Landlock: %s",
                 errno == EOPNOTSUPP ? "it is switched off" : strerror(errno));
        return false;
    }
    ruleset all = everything(version);
    int rules = (int)syscall(CREATE_RULESET, &all, sizeof(all), 0);
    bool entered = rules >= 0 && restrict_self(rules, allowed);
    if (entered)
        snprintf(reason, size, "Landlock %d", version);
    else
        snprintf(reason, size, "Landlock %d refuses its service: %s", version, strerror(errno));
    if (rules >= 0)
        close(rules);
    return entered;
}
