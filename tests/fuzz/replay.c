/* Runs a fuzz target once over files and the files of directories, so that every build tests the corpora. */
#include "fuzz/fuzz.h"
#include <dirent.h>
#include <limits.h>
#include <sys/stat.h>

enum { LONGEST = 1 << 20 };

static int replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    uint8_t *bytes = malloc(LONGEST);
    if (file == NULL || bytes == NULL) {
        perror(path);
        exit(2);
    }
    size_t length = fread(bytes, 1, LONGEST, file);
    fclose(file);
    uint8_t *exact = malloc(length > 0 ? length : 1); /* so that AddressSanitizer sees the input's end */
    if (exact == NULL)
        exit(2);
    memcpy(exact, bytes, length);
    free(bytes);
    LLVMFuzzerTestOneInput(exact, length);
    free(exact);
    return 1;
}

static int replay(const char *path)
{
    struct stat status;
    char inside[PATH_MAX];
    int count = 0;
    if (stat(path, &status) != 0 || !S_ISDIR(status.st_mode))
        return replay_file(path);
    DIR *directory = opendir(path);
    if (directory == NULL) {
        perror(path);
        exit(2);
    }
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(inside, sizeof(inside), "%s/%s", path, entry->d_name);
        count += replay_file(inside);
    }
    closedir(directory);
    return count;
}

int main(int argc, char **argv)
{
    int count = 0;
    for (int i = 1; i < argc; i++)
        count += replay(argv[i]);
    printf("%d inputs\n", count);
    return count > 0 ? 0 : 2;
}
