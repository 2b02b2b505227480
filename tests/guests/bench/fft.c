/* A Fourier transform in place, of a power of two: fft MIB [ROUNDS]. Its strides double from pass to pass, and each
   pass reads and writes all of the memory. Prints a checksum, and to standard error the seconds that it took. */
#include "scientific.h"

struct complex { double re, im; };

/* Decimation in frequency, radix 4 where it can: few passes over memory that does not fit. */
static void transform(struct complex *data, size_t count)
{
    for (size_t length = count; length > 1; length /= 4) {
        size_t quarter = length / 4;
        if (quarter == 0) {
            for (size_t i = 0; i < count; i += 2) {
                struct complex a = data[i], b = data[i + 1];
                data[i] = (struct complex){a.re + b.re, a.im + b.im};
                data[i + 1] = (struct complex){a.re - b.re, a.im - b.im};
            }
            return;
        }
        double step = -2 * M_PI / length;
        struct complex turn = {cos(step), sin(step)};
        for (size_t block = 0; block < count; block += length) {
            struct complex w = {1, 0};
            for (size_t i = 0; i < quarter; i++) {
                struct complex *at = data + block + i;
                struct complex a = at[0], b = at[quarter], c = at[2 * quarter], d = at[3 * quarter];
                struct complex ac = {a.re + c.re, a.im + c.im}, amc = {a.re - c.re, a.im - c.im};
                struct complex bd = {b.re + d.re, b.im + d.im}, bmd = {b.im - d.im, d.re - b.re};
                struct complex w2 = {w.re * w.re - w.im * w.im, 2 * w.re * w.im};
                struct complex w3 = {w2.re * w.re - w2.im * w.im, w2.re * w.im + w2.im * w.re};
                struct complex p = {ac.re - bd.re, ac.im - bd.im}, q = {amc.re + bmd.re, amc.im + bmd.im};
                struct complex r = {amc.re - bmd.re, amc.im - bmd.im};
                at[0] = (struct complex){ac.re + bd.re, ac.im + bd.im};
                at[quarter] = (struct complex){q.re * w.re - q.im * w.im, q.re * w.im + q.im * w.re};
                at[2 * quarter] = (struct complex){p.re * w2.re - p.im * w2.im, p.re * w2.im + p.im * w2.re};
                at[3 * quarter] = (struct complex){r.re * w3.re - r.im * w3.im, r.re * w3.im + r.im * w3.re};
                w = (struct complex){w.re * turn.re - w.im * turn.im, w.re * turn.im + w.im * turn.re};
            }
        }
    }
}

int main(int argc, char **argv)
{
    size_t mib = argument(argc, argv, 1, 256), rounds = argument(argc, argv, 2, 1);
    size_t count = 1;
    while (count * 2 * sizeof(struct complex) <= mib << 20)
        count *= 2;
    double *memory = map_doubles(count * 2);
    if (!memory)
        return 2;
    for (size_t i = 0; i < count * 2; i++)
        memory[i] = value_at(i);
    double before = seconds();
    for (size_t round = 0; round < rounds; round++)
        transform((struct complex *)memory, count);
    return report(before, memory, count * 2);
}
