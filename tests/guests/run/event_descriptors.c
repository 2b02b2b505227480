/* Adds to an eventfd, arms a timerfd, changes an inotify and an epoll set: all shared with whoever holds copies. */
#include "hostile.h"
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

int main(int argc, char **argv)
{
    (void)argc;
    int event = eventfd(0, EFD_NONBLOCK), timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    int notify = inotify_init1(IN_NONBLOCK), poll = epoll_create1(0);
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t value = 0;
        cold_reads(argv[1]);
        effect();
        uint64_t one = 1;
        say("eventfd", write(event, &one, sizeof one));
        struct itimerspec before, after = {{0, 0}, {1000 + round, 0}};
        say("timerfd", timerfd_settime(timer, 0, &after, &before));
        say("was armed for", before.it_value.tv_sec ? before.it_value.tv_sec + 1 : 0);
        int watch = inotify_add_watch(notify, "out", IN_CREATE);
        struct epoll_event interest = {EPOLLIN, {.fd = event}};
        say("epoll add", epoll_ctl(poll, EPOLL_CTL_ADD, event, &interest));
        cold_reads(argv[1]);
        char name[32];
        snprintf(name, sizeof name, "out/event%d", round);
        close(open(name, O_CREAT | O_WRONLY, 0600));
        char bytes[512];
        say("notified", read(notify, bytes, sizeof bytes));
        say("notified again", read(notify, bytes, sizeof bytes));
        struct epoll_event seen;
        say("epoll", epoll_wait(poll, &seen, 1, 0));
        if (round & 1) {
            say("read", read(event, &value, sizeof value));
            say("value", value);
        }
        cold_reads(argv[1]);
        say("epoll del", epoll_ctl(poll, EPOLL_CTL_DEL, event, NULL));
        say("remove watch", inotify_rm_watch(notify, watch));
        while (read(notify, bytes, sizeof bytes) > 0) {
        }
    }
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    int signals = signalfd(-1, &set, SFD_NONBLOCK);
    kill(getpid(), SIGUSR1);
    cold_reads(argv[1]);
    struct signalfd_siginfo information;
    say("signalfd", read(signals, &information, sizeof information));
    say("signal", information.ssi_signo);
    say("signalfd", read(signals, &information, sizeof information));
    return finish();
}
