/* Maps a cold file that another process changes, truncates and makes grow again, with a handler for what is beyond its
   end. */
#include "faulting.h"

static sigjmp_buf back;
static volatile int buses;

static void on_bus(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)info;
    (void)context;
    buses++;
    siglongjmp(back, 1);
}

/* Another process does it. */
static void elsewhere(const char *path, int step, size_t size)
{
    pid_t child = fork();
    if (child == 0) {
        int fd = open(path, O_RDWR);
        if (step == 0 && ftruncate(fd, size / 2) < 0)
            _exit(1);
        if (step == 1 && ftruncate(fd, size) < 0)
            _exit(1);
        for (size_t page = 0; page < size / 2; page += 7 * BLOCK)
            if (pwrite(fd, &(char){step + 'a'}, 1, page) != 1)
                _exit(2);
        _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    say("elsewhere", status);
}

int main(int argc, char **argv)
{
    (void)argc;
    memory(20 << 20, MAP_PRIVATE);
    struct sigaction action = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO};
    sigaction(SIGBUS, &action, NULL);
    int fd = open(argv[1], O_RDWR);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        die(argv[1]);
    volatile size_t size = st.st_size;
    for (volatile int round = 0; round < ROUNDS; round++) {
        unsigned char *volatile data = cold_map(fd, size, PROT_READ, round & 1 ? MAP_SHARED : MAP_PRIVATE);
        touch_pages(data, size / 2, TOUCHES / 2);
        effect();
        elsewhere(argv[1], 0, size);
        for (volatile int i = 0; i < TOUCHES / 4; i++)
            if (sigsetjmp(back, 1) == 0)
                digest(data + next_page(size), 64);
        say("beyond the end", buses);
        int file = open("out/log", O_WRONLY | O_CREAT | O_APPEND, 0644);
        say("written from beyond the end", write(file, data + size - 2 * BLOCK, BLOCK));
        close(file);
        elsewhere(argv[1], 1, size);
        touch_pages(data, size, TOUCHES / 4);
        say("empty", data[size - BLOCK]);
        append_line("out/file", round);
        munmap(data, size);
    }
    return finish();
}
