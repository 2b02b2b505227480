// A web server with one planted cause of its speed: planted CAUSE PORT [FILE].
//
// small: one thread with epoll and answers of 2 bytes, at any address. ring: the same at the loopback, and each answer waits for
// a page of FILE, which a ring of requests reads past the page cache. Else a thread for each connection: unmap gives memory back
// for each request, many has 300 idle threads beside those that share a lock, cache keeps 32 MiB at most, log writes a page into
// the pipe FILE behind a lock, child waits for a program that sleeps, accept takes a connection every 5 ms and lets two wait for
// that. timed waits for 10 ms at a condition that never comes, sync writes a page of FILE through to the disk, datagram and hidden
// ask a server at the port or at the abstract name FILE, over a new socket for each request. yield and spin wait for a lock without
// a sleep, yield for one whose holder sleeps, and spin for one whose holder computes. compute is work alone. serial: one thread,
// which takes the next connection when one has ended.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CONNECTIONS = 4096, ENTRIES = 256, PAGE = 4096, UNMAPPED = 8 << 20, COMPUTED = 64 << 10, KEPT = 64 << 10, KEPT_MAX = 512 };

static const char *cause, *place;
static const char ANSWER[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_spinlock_t spinning;
static char *kept[KEPT_MAX];
static int log_pipe, file;
static unsigned long requests;
static volatile unsigned check_sum;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static int listening(int port) {
    int on = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(strcmp(cause, "small") ? INADDR_LOOPBACK : INADDR_ANY);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, strcmp(cause, "accept") ? 512 : 1)) fail("listen");
    return listener;
}

/// Whether a whole request has come; -1 where the client has gone.
static int asked(int client) {
    char buffer[4096];
    ssize_t length = read(client, buffer, sizeof buffer);
    if (length <= 0) return -1;
    return length >= 4 && !memcmp(buffer + length - 4, "\r\n\r\n", 4);
}

static void answer(int client) {
    // The client may have gone meanwhile.
    if (send(client, ANSWER, sizeof ANSWER - 1, MSG_NOSIGNAL) < 0) return;
}

// Connections with a thread each.

/// Asks a server over a new socket, and waits for its answer.
static void ask(void) {
    int by_datagram = !strcmp(cause, "datagram");
    struct sockaddr_in at_port = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_un by_name = {.sun_family = AF_UNIX};
    struct sockaddr *address = by_datagram ? (struct sockaddr *)&at_port : (struct sockaddr *)&by_name;
    socklen_t length = by_datagram ? sizeof at_port : offsetof(struct sockaddr_un, sun_path) + 1 + strlen(place);
    at_port.sin_port = htons(atoi(place));
    memcpy(by_name.sun_path + 1, place, strlen(place));
    static const char question[] = "GET / HTTP/1.1\r\nHost: late\r\n\r\n";
    char buffer[256];
    int asking = socket(address->sa_family, by_datagram ? SOCK_DGRAM : SOCK_STREAM, 0);
    if (connect(asking, address, length) || write(asking, question, sizeof question - 1) < 0) fail(place);
    if (read(asking, buffer, sizeof buffer) < 0) fail("answer");
    close(asking);
}

static void wait_in_vain(void) {
    static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 10000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&lock);
    pthread_cond_timedwait(&never, &lock, &until);
    pthread_mutex_unlock(&lock);
}

/// A check sum, bit by bit, which takes some hundred microseconds.
static void compute(void) {
    static const unsigned char bytes[COMPUTED];
    unsigned sum = ~0u;
    for (int place = 0; place < COMPUTED; place++) {
        sum ^= bytes[place];
        for (int bit = 0; bit < 8; bit++) sum = sum >> 1 ^ (0xedb88320 & -(sum & 1));
    }
    check_sum = sum;
}

static void yield_for_a_sleeper(void) {
    static atomic_flag taken = ATOMIC_FLAG_INIT;
    while (atomic_flag_test_and_set(&taken)) sched_yield();
    usleep(1000);
    atomic_flag_clear(&taken);
}

static void spin_for_a_computation(void) {
    pthread_spin_lock(&spinning);
    compute();
    pthread_spin_unlock(&spinning);
}

static void work(void) {
    if (!strcmp(cause, "unmap")) {
        char *memory = mmap(0, UNMAPPED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        if (memory == MAP_FAILED) fail("mmap");
        munmap(memory, UNMAPPED);
    } else if (!strcmp(cause, "many")) {
        pthread_mutex_lock(&lock);
        usleep(2000);
        pthread_mutex_unlock(&lock);
    } else if (!strcmp(cause, "cache")) {
        pthread_mutex_lock(&lock);
        char **place = &kept[requests++ % KEPT_MAX];
        free(*place);
        *place = malloc(KEPT);
        memset(*place, 1, KEPT);
        pthread_mutex_unlock(&lock);
    } else if (!strcmp(cause, "log")) {
        static const char line[PAGE];
        pthread_mutex_lock(&lock);
        if (write(log_pipe, line, PAGE) != PAGE) fail("log");
        pthread_mutex_unlock(&lock);
    } else if (!strcmp(cause, "yield")) {
        yield_for_a_sleeper();
    } else if (!strcmp(cause, "spin")) {
        spin_for_a_computation();
    } else if (!strcmp(cause, "compute")) {
        compute();
    } else if (!strcmp(cause, "timed")) {
        wait_in_vain();
    } else if (!strcmp(cause, "sync")) {
        static const char page[PAGE];
        if (pwrite(file, page, PAGE, (off_t)(__atomic_fetch_add(&requests, 1, __ATOMIC_RELAXED) % 64) * PAGE) != PAGE || fdatasync(file))
            fail("sync");
    } else if (!strcmp(cause, "datagram") || !strcmp(cause, "hidden")) {
        ask();
    } else if (!strcmp(cause, "child")) {
        pid_t child = vfork();
        if (!child) {
            execlp("sleep", "sleep", "0.01", (char *)0);
            _exit(1);
        }
        waitpid(child, 0, 0);
    }
}

static void *serve(void *argument) {
    int client = (int)(long)argument, whole;
    while ((whole = asked(client)) >= 0)
        if (whole) {
            work();
            answer(client);
        }
    close(client);
    return 0;
}

static void *idle(void *argument) {
    pause();
    return argument;
}

static void serve_by_threads(int listener) {
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 << 10);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    for (int number = 0; !strcmp(cause, "many") && number < 300; number++)
        if (pthread_create(&thread, &attributes, idle, 0)) fail("thread");
    int paced = !strcmp(cause, "accept"), timer = timerfd_create(CLOCK_MONOTONIC, 0);
    struct itimerspec every = {.it_interval.tv_nsec = 5000000, .it_value.tv_nsec = 5000000};
    if (timerfd_settime(timer, 0, &every, 0)) fail("timer");
    for (;;) {
        unsigned long ticks;
        if (paced && read(timer, &ticks, sizeof ticks) < 0) fail("timer");
        int client = accept(listener, 0, 0);
        if (!strcmp(cause, "serial")) serve((void *)(long)client);
        else if (client >= 0 && pthread_create(&thread, &attributes, serve, (void *)(long)client)) fail("thread");
    }
}

// Connections of one thread.

struct ring {
    int ring, event, file;
    off_t pages;
    unsigned *tail, *mask, *array, *done_head, *done_tail, *done_mask;
    struct io_uring_sqe *entries;
    struct io_uring_cqe *done;
    char *pages_read;
};

static struct ring ring;

static void open_ring(const char *path) {
    struct io_uring_params params = {0};
    ring.file = open(path, O_RDONLY | O_DIRECT);
    if (ring.file < 0) fail(path);
    ring.pages = lseek(ring.file, 0, SEEK_END) / PAGE;
    ring.ring = syscall(SYS_io_uring_setup, ENTRIES, &params);
    if (ring.ring < 0) fail("io_uring_setup");
    int protection = PROT_READ | PROT_WRITE;
    char *asked = mmap(0, params.sq_off.array + params.sq_entries * sizeof(unsigned), protection, MAP_SHARED, ring.ring,
                       IORING_OFF_SQ_RING);
    char *done = mmap(0, params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe), protection, MAP_SHARED,
                      ring.ring, IORING_OFF_CQ_RING);
    ring.entries = mmap(0, params.sq_entries * sizeof(struct io_uring_sqe), protection, MAP_SHARED, ring.ring,
                        IORING_OFF_SQES);
    if (asked == MAP_FAILED || done == MAP_FAILED || ring.entries == MAP_FAILED) fail("mmap");
    ring.tail = (unsigned *)(asked + params.sq_off.tail);
    ring.mask = (unsigned *)(asked + params.sq_off.ring_mask);
    ring.array = (unsigned *)(asked + params.sq_off.array);
    ring.done_head = (unsigned *)(done + params.cq_off.head);
    ring.done_tail = (unsigned *)(done + params.cq_off.tail);
    ring.done_mask = (unsigned *)(done + params.cq_off.ring_mask);
    ring.done = (struct io_uring_cqe *)(done + params.cq_off.cqes);
    ring.pages_read = aligned_alloc(PAGE, (size_t)CONNECTIONS * PAGE);
    ring.event = eventfd(0, EFD_NONBLOCK);
    if (syscall(SYS_io_uring_register, ring.ring, IORING_REGISTER_EVENTFD, &ring.event, 1)) fail("io_uring_register");
}

static void read_page_for(int client) {
    unsigned tail = *ring.tail, place = tail & *ring.mask;
    ring.entries[place] = (struct io_uring_sqe){
        .opcode = IORING_OP_READ,
        .fd = ring.file,
        .addr = (unsigned long)(ring.pages_read + (size_t)client * PAGE),
        .len = PAGE,
        .off = (requests++ * 7919 % ring.pages) * PAGE,
        .user_data = client,
    };
    ring.array[place] = place;
    __atomic_store_n(ring.tail, tail + 1, __ATOMIC_RELEASE);
    if (syscall(SYS_io_uring_enter, ring.ring, 1, 0, 0, 0, 0) != 1) fail("io_uring_enter");
}

static void answer_what_was_read(void) {
    unsigned long events;
    if (read(ring.event, &events, sizeof events) < 0) return;
    while (*ring.done_head != __atomic_load_n(ring.done_tail, __ATOMIC_ACQUIRE)) {
        struct io_uring_cqe done = ring.done[*ring.done_head & *ring.done_mask];
        __atomic_store_n(ring.done_head, *ring.done_head + 1, __ATOMIC_RELEASE);
        if (done.res != PAGE) fprintf(stderr, "read %d\n", done.res);
        answer((int)done.user_data);
    }
}

static void serve_by_events(int listener, int with_ring) {
    int events = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener}, came[64];
    epoll_ctl(events, EPOLL_CTL_ADD, listener, &event);
    if (with_ring) {
        event.data.fd = ring.event;
        epoll_ctl(events, EPOLL_CTL_ADD, ring.event, &event);
    }
    for (;;) {
        int number = epoll_wait(events, came, 64, -1);
        for (int place = 0; place < number; place++) {
            int from = came[place].data.fd, whole;
            if (from == listener) {
                int client = accept(listener, 0, 0), on = 1;
                if (client < 0 || client >= CONNECTIONS) fail("accept");
                setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
                event.data.fd = client;
                epoll_ctl(events, EPOLL_CTL_ADD, client, &event);
            } else if (with_ring && from == ring.event) {
                answer_what_was_read();
            } else if ((whole = asked(from)) < 0) {
                close(from);
            } else if (whole && with_ring) {
                read_page_for(from);
            } else if (whole) {
                answer(from);
            }
        }
    }
}

int main(int count, char **arguments) {
    if (count < 3) return 2;
    cause = arguments[1];
    place = count > 3 ? arguments[3] : "";
    pthread_spin_init(&spinning, PTHREAD_PROCESS_PRIVATE);
    int listener = listening(atoi(arguments[2])), with_ring = !strcmp(cause, "ring");
    if (with_ring) open_ring(arguments[3]);
    if (!strcmp(cause, "sync") && (file = open(place, O_RDWR | O_CREAT, 0600)) < 0) fail(place);
    if (!strcmp(cause, "log") && (log_pipe = open(arguments[3], O_WRONLY)) < 0) fail(arguments[3]);
    if (with_ring || !strcmp(cause, "small")) serve_by_events(listener, with_ring);
    serve_by_threads(listener);
}
