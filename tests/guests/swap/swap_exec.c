/* Executes itself, by itself and in children, while it waits for swapped memory; each link of the chain has memory of its
   own. */
#include "faulting.h"

int main(int argc, char **argv)
{
    int link = argc > 1 ? atoi(argv[1]) : 0;
    unsigned char *data = memory(MEMORY, MAP_PRIVATE);
    checksum = argc > 2 ? strtoul(argv[2], NULL, 16) : 0;
    touch_pages(data, MEMORY, 2 * TOUCHES);
    append_line("out/links", link);
    char child_sum[16];
    snprintf(child_sum, sizeof child_sum, "%08x", checksum);
    pid_t child = vfork();
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", "echo \"child $0\"; exit 7", child_sum, NULL);
        _exit(1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    say("child", status);
    touch_pages(data, MEMORY, TOUCHES);
    if (link < 3) {
        char number[16], sum[16];
        snprintf(number, sizeof number, "%d", link + 1);
        snprintf(sum, sizeof sum, "%08x", checksum);
        execl("/proc/self/exe", argv[0], number, sum, NULL);
        die("execl");
    }
    return finish();
}
