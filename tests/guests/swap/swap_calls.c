/* Makes calls that a signal would interrupt, amid waits for swapped memory: nobody sends one. */
#include "faulting.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/sem.h>

int main(void)
{
    unsigned char *data = memory(MEMORY, MAP_PRIVATE);
    int ends[2], events = epoll_create1(EPOLL_CLOEXEC), semaphores = semget(IPC_PRIVATE, 1, 0600);
    if (pipe(ends) < 0)
        die("pipe");
    struct pollfd entry = {.fd = ends[0], .events = POLLIN};
    struct timespec moment = {0, 500000};
    sigset_t none, user;
    sigemptyset(&none);
    sigemptyset(&user);
    sigaddset(&user, SIGUSR1);
    int results[8] = {0};
    touch_pages(data, MEMORY, 2 * TOUCHES);
    for (int round = 0; round < ROUNDS * 10; round++) {
        struct timeval short_time = {0, 500};
        struct epoll_event event;
        struct sembuf down = {0, -1, 0};
        struct timespec left = {0, 0};
        touch_pages(data, MEMORY, TOUCHES / 40);
        results[0] += nanosleep(&moment, &left);
        touch_pages(data, MEMORY, 5);
        results[1] += poll(&entry, 1, 1);
        touch_pages(data, MEMORY, 5);
        results[2] += ppoll(&entry, 1, &moment, &none);
        touch_pages(data, MEMORY, 5);
        results[3] += select(0, NULL, NULL, NULL, &short_time);
        touch_pages(data, MEMORY, 5);
        results[4] += epoll_wait(events, &event, 1, 1);
        touch_pages(data, MEMORY, 5);
        results[5] += semtimedop(semaphores, &down, 1, &moment) < 0 && errno == EAGAIN;
        touch_pages(data, MEMORY, 5);
        results[6] += sigtimedwait(&user, NULL, &moment) < 0 && errno == EAGAIN;
        touch_pages(data, MEMORY, 5);
        results[7] += clock_nanosleep(CLOCK_MONOTONIC, 0, &moment, NULL);
        if (round % 10 == 9) {
            effect();
            append_line("out/file", round);
        }
    }
    semctl(semaphores, 0, IPC_RMID);
    for (int i = 0; i < 8; i++)
        dprintf(1, "call %d: %d\n", i, results[i]);
    return finish();
}
