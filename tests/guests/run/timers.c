/* Arms timers of every kind around cold reads; each goes off exactly once, in the original. */
#include "hostile.h"

static volatile sig_atomic_t alarms, timers, profiles;

static void on_alarm(int number)
{
    (void)number;
    alarms++;
}

static void on_timer(int number)
{
    (void)number;
    timers++;
}

int main(int argc, char **argv)
{
    (void)argc;
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    action.sa_handler = on_timer;
    sigaction(SIGRTMIN, &action, NULL);
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN};
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    for (int round = 0; round < ROUNDS; round++) {
        cold_reads(argv[1]);
        effect();
        say("alarm was", alarm(1000 + round) > 900);
        struct itimerval soon = {{0, 0}, {0, 20000}};
        setitimer(ITIMER_REAL, &soon, NULL);
        struct itimerspec later = {{0, 0}, {0, 25000000}};
        say("settime", timer_settime(timer, 0, &later, NULL));
        cold_reads(argv[1]);
        unsigned long long end = now_ns() + 120000000;
        while (now_ns() < end)
            usleep(5000);
        say("alarms", alarms);
        say("timers", timers);
        alarm(1000);
    }
    timer_delete(timer);
    say("profiles", profiles);
    return finish();
}
