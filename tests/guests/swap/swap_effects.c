/* Waits for swapped memory, and in between appends, writes much, signals itself, and has children that change their copy of
   that memory. */
#include "faulting.h"

static volatile int caught;

static void on_signal(int number)
{
    caught += number != 0;
}

int main(void)
{
    unsigned char *data = memory(MEMORY, MAP_PRIVATE);
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGUSR1, &action, NULL);
    int kept = open("out/kept", O_RDWR | O_CREAT, 0644);
    for (int round = 0; round < ROUNDS; round++) {
        touch_pages(data, MEMORY, TOUCHES);
        effect();
        append_line("out/file", round);
        raise(SIGUSR1);
        say("write from swapped memory", pwrite(kept, data + next_page(MEMORY / 2), 64 * BLOCK, 0));
        say("read into swapped memory", pread(kept, data + next_page(MEMORY / 2), 8 * BLOCK, 9 * BLOCK));
        int ends[2];
        if (pipe(ends) < 0)
            die("pipe");
        pid_t child = fork();
        if (child == 0) {
            change_pages(data, MEMORY, TOUCHES / 4);
            append_line("out/child", round);
            dprintf(ends[1], "%08x", checksum);
            _exit(checksum & 63);
        }
        change_pages(data, MEMORY, TOUCHES / 4);
        close(ends[1]);
        char text[16] = {0};
        for (int got = 0, more; (more = read(ends[0], text + got, sizeof text - 1 - got)) > 0; got += more)
            ;
        close(ends[0]);
        int status = -1;
        waitpid(child, &status, 0);
        dprintf(1, "child %s %d\n", text, status);
    }
    say("caught", caught);
    return finish();
}
