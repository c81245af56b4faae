/* A library whose constructor forks and waits for the child, as a driver's may. It has nothing that Kiln looks for. */
#include <sys/wait.h>
#include <unistd.h>

__attribute__((constructor)) static void fork_once(void)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    if (pid > 0)
        waitpid(pid, NULL, 0);
}
