/* Cancels threads in each kind of call that waits: what their scopes end with runs, innermost first, and the mutex is free. */
#include "hostile.h"
#include <poll.h>
#include <semaphore.h>
#include <sys/msg.h>
#include <sys/socket.h>

enum { STATE_LOOKS_MAX = 300 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static const char *data;
static int ends[2], full[2], listener, queue, child, lock_file;
static volatile int thread_id;

static void unlock(pthread_mutex_t **held)
{
    pthread_mutex_unlock(*held);
}

static void told(const char **text)
{
    dprintf(1, "left %s\n", *text);
}

static void in_read(void)
{
    char byte;
    (void)!read(ends[0], &byte, 1);
}

static void in_readv(void)
{
    char byte;
    struct iovec vector = {&byte, 1};
    (void)!readv(ends[0], &vector, 1);
}

static void in_write(void)
{
    char bytes[BLOCK] = {0};
    for (;;)
        (void)!write(full[1], bytes, sizeof bytes);
}

static void in_open(void)
{
    (void)!open("fifo", O_RDONLY);
}

static void in_accept(void)
{
    (void)!accept(listener, NULL, NULL);
}

static void in_poll(void)
{
    poll(NULL, 0, -1);
}

static void in_pause(void)
{
    pause();
}

static void in_nanosleep(void)
{
    struct timespec long_time = {1000, 0};
    nanosleep(&long_time, NULL);
}

static void in_waitpid(void)
{
    waitpid(child, NULL, 0);
}

static void in_msgrcv(void)
{
    char message[64];
    msgrcv(queue, message, 8, 0, 0);
}

static void in_lock(void)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    fcntl(lock_file, F_SETLKW, &lock);
}

static void in_cold_reads(void)
{
    unsigned char bytes[BLOCK];
    int fd = open(data, O_RDONLY);
    for (unsigned i = 0;; i++)
        (void)!pread(fd, bytes, BLOCK, (off_t)(i * 769u % 2000) * BLOCK);
}

static const struct {
    const char *name;
    void (*wait)(void);
} calls[] = {
    {"read", in_read},     {"readv", in_readv},         {"write", in_write},     {"open", in_open},
    {"accept", in_accept}, {"poll", in_poll},           {"pause", in_pause},     {"nanosleep", in_nanosleep},
    {"waitpid", in_waitpid}, {"msgrcv", in_msgrcv},     {"fcntl", in_lock},      {"cold reads", in_cold_reads},
};

static void *wait_in(void *argument)
{
    int which = *(int *)argument;
    __attribute__((cleanup(told))) const char *outer = "the outer scope";
    pthread_mutex_lock(&mutex);
    __attribute__((cleanup(unlock))) pthread_mutex_t *held = &mutex;
    __attribute__((cleanup(told))) const char *inner = calls[which].name;
    thread_id = gettid();
    calls[which].wait();
    dprintf(1, "%s came back\n", inner);
    (void)outer;
    (void)held;
    return NULL;
}

/* Waits until the thread waits, for a while. */
static void let_it_wait(void)
{
    for (int look = 0; look < STATE_LOOKS_MAX; look++) {
        char path[64], text[256];
        snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread_id);
        int fd = open(path, O_RDONLY);
        long got = read(fd, text, sizeof text - 1);
        close(fd);
        if (thread_id && got > 0) {
            text[got] = 0;
            const char *state = strrchr(text, ')');
            if (state && (state[2] == 'S' || state[2] == 'D'))
                return;
        }
        usleep(1000);
    }
}

int main(int argc, char **argv)
{
    (void)argc;
    data = argv[1];
    if (pipe(ends) < 0 || pipe(full) < 0 || mkfifo("fifo", 0600) < 0)
        die("pipe");
    listener = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un {
        sa_family_t family;
        char path[108];
    } name = {AF_UNIX, "socket"};
    if (bind(listener, (void *)&name, sizeof name) < 0 || listen(listener, 1) < 0)
        die("listen");
    queue = msgget(IPC_PRIVATE, 0600);
    lock_file = open("out/file", O_RDWR);
    child = fork();
    if (child == 0) {
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        fcntl(lock_file, F_SETLK, &lock);
        (void)!write(ends[1], "l", 1);
        pause();
    }
    char byte;
    if (read(ends[0], &byte, 1) != 1)
        die("child");
    for (int which = 0; which < (int)(sizeof calls / sizeof *calls); which++) {
        pthread_t thread;
        void *result;
        cold_reads(data);
        thread_id = 0;
        pthread_create(&thread, NULL, wait_in, &which);
        let_it_wait();
        int cancelled = pthread_cancel(thread);
        pthread_join(thread, &result);
        say(calls[which].name, cancelled);
        say("cancelled", result == PTHREAD_CANCELED);
        int held = pthread_mutex_trylock(&mutex);
        say("mutex is held", held);
        if (held)
            pthread_mutex_init(&mutex, NULL);
        else
            pthread_mutex_unlock(&mutex);
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    msgctl(queue, IPC_RMID, NULL);
    return finish();
}
