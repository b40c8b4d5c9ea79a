/* What attention costs when it is put together from CMSIS-DSP: dot products or a matrix product for the scores, a softmax over
 * expf, a matrix product for the values. With CMSIS_NN also what CMSIS-NN takes on 8-bit integers, for attention and for linear
 * layers. ../costs.py builds this with their sources, and runs it beside the kernels: the same shapes, printed as by
 * src/bin/costs.rs. */

#include <math.h>
#include <stdint.h>

#include "arm_math.h"

#define SIDE 64

static float numbers[SIDE * SIDE + 16];
static float transposed[SIDE * SIDE];
static float scores[SIDE * SIDE];
static float out[SIDE * SIDE];

/* SysTick and the coprocessor access register, which all cores of the profile have at the same place. */
static volatile uint32_t *const SYST = (volatile uint32_t *)0xe000e010;
static volatile uint32_t *const CPACR = (volatile uint32_t *)0xe000ed88;

static void semihosting(int operation, const void *argument) {
    register int r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
}

static void print(const char *text) { semihosting(4, text); }

static void print_number(uint32_t n) {
    char digits[11];
    char *first = digits + sizeof digits - 1;
    *first = 0;
    do {
        *--first = '0' + n % 10;
        n /= 10;
    } while (n);
    print(first);
}

/* Over each row of the scores, times the scale. */
static void softmax(float *row, int n, float scale) {
    float max = -INFINITY, sum = 0;
    for (int j = 0; j < n; j++) {
        row[j] *= scale;
        if (row[j] > max) max = row[j];
    }
    for (int j = 0; j < n; j++) {
        row[j] = expf(row[j] - max);
        sum += row[j];
    }
    float factor = 1 / sum;
    for (int j = 0; j < n; j++) row[j] *= factor;
}

static void weigh_and_add(int n_q, int n, int d) {
    for (int i = 0; i < n_q; i++) softmax(scores + i * n, n, 1 / sqrtf(d));
    arm_matrix_instance_f32 weights = {n_q, n, scores}, values = {n, d, numbers + 9}, product = {n_q, d, out};
    arm_mat_mult_f32(&weights, &values, &product);
}

static void with_dot_products(int n_q, int n, int d) {
    for (int i = 0; i < n_q; i++)
        for (int j = 0; j < n; j++) arm_dot_prod_f32(numbers + i * d, numbers + 5 + j * d, d, scores + i * n + j);
    weigh_and_add(n_q, n, d);
}

static void with_products(int n_q, int n, int d) {
    arm_matrix_instance_f32 queries = {n_q, d, numbers}, keys = {n, d, numbers + 5}, columns = {d, n, transposed};
    arm_matrix_instance_f32 products = {n_q, n, scores};
    arm_mat_trans_f32(&keys, &columns);
    arm_mat_mult_f32(&queries, &columns, &products);
    weigh_and_add(n_q, n, d);
}

static void product(int n_q, int n, int d) {
    arm_matrix_instance_f32 a = {n_q, n, numbers}, b = {n, d, numbers + 9}, c = {n_q, d, out};
    arm_mat_mult_f32(&a, &b, &c);
}

static void one_softmax(int n_q, int n, int d) {
    (void)d;
    for (int j = 0; j < n_q * n; j++) scores[j] = numbers[j];
    for (int i = 0; i < n_q; i++) softmax(scores + i * n, n, 1);
}

static const char *by = "cmsis";

/* `memory` counts elements of four bytes. */
static void measure(const char *name, void (*f)(int, int, int), int n_q, int n, int d, int rows, int cols, int memory) {
    const int rounds = 20;
    uint32_t start = SYST[2];
    for (int i = 0; i < rounds; i++) f(n_q, n, d);
    uint32_t ticks = (start - SYST[2]) & 0xffffff;
    print(name);
    print(";");
    print_number(rows);
    print("x");
    print_number(cols);
    print(";");
    print(by);
    print(";");
    print_number((uint64_t)ticks * (1000000000 / (CLOCK / 1000)) / 1000 / rounds);
    print(";;");
    print_number(memory * sizeof(float));
    print("\n");
}

#ifdef CMSIS_NN
#include "arm_nnfunctions.h"

#define MOST 256

static int8_t integers[MOST * 64 + 16], scores_s8[SIDE * SIDE], columns_s8[SIDE * SIDE], out_s8[MOST * SIDE];
static int32_t bias[MOST], multipliers[MOST], shifts[MOST];

/* Rows of `inputs` integers times each row of the weight. Both functions compute it. */
static void fully_connected(const int8_t *x, int rows, int inputs, const int8_t *weight, int outputs, int offset, int8_t *y) {
    cmsis_nn_context no_buffer = {0};
    cmsis_nn_fc_params params = {.input_offset = offset, .activation = {-128, 127}};
    cmsis_nn_per_tensor_quant_params factor = {multipliers[0], shifts[0]};
    cmsis_nn_dims of_x = {rows, 1, 1, inputs}, of_weight = {inputs, 1, 1, outputs}, of_bias = {1, 1, 1, outputs};
    cmsis_nn_dims of_y = {rows, 1, 1, outputs};
    arm_fully_connected_s8(&no_buffer, &params, &factor, &of_x, x, &of_weight, weight, &of_bias, bias, &of_y, y);
}

static void convolve(const int8_t *x, int rows, int inputs, const int8_t *weight, int outputs, int offset, int8_t *y) {
    cmsis_nn_context no_buffer = {0};
    cmsis_nn_conv_params params = {.input_offset = offset, .stride = {1, 1}, .dilation = {1, 1}, .activation = {-128, 127}};
    cmsis_nn_per_channel_quant_params factors = {multipliers, shifts};
    cmsis_nn_dims of_x = {1, 1, rows, inputs}, of_weight = {outputs, 1, 1, inputs}, of_bias = {1, 1, 1, outputs};
    cmsis_nn_dims of_y = {1, 1, rows, outputs};
    arm_convolve_1x1_s8_fast(&no_buffer, &params, &factors, &of_x, x, &of_weight, weight, &of_bias, bias, &of_y, y);
}

typedef void product_s8(const int8_t *, int, int, const int8_t *, int, int, int8_t *);

static void attention_s8(product_s8 *product, int n_q, int n, int d) {
    product(integers, n_q, d, integers + 4, n, 0, scores_s8);
    arm_softmax_s8(scores_s8, n_q, n, 1 << 30, 22, -128, scores_s8);
    for (int j = 0; j < n; j++)
        for (int c = 0; c < d; c++) columns_s8[c * n + j] = integers[8 + j * d + c];
    product(scores_s8, n_q, n, columns_s8, d, 128, out_s8);
}

static void by_fully_connected(int n_q, int n, int d) { attention_s8(fully_connected, n_q, n, d); }
static void by_convolve(int n_q, int n, int d) { attention_s8(convolve, n_q, n, d); }
static void linear_fully_connected(int rows, int in, int out) { fully_connected(integers, rows, in, integers + 4, out, 0, out_s8); }
static void linear_convolve(int rows, int in, int out) { convolve(integers, rows, in, integers + 4, out, 0, out_s8); }

static void with_integers(const int shapes[5][2]) {
    static const struct {
        const char *name;
        int rows, in, out;
    } layers[] = {
        {"linear to 32", 16, 32, 32}, {"linear to 64", 16, 64, 64}, {"linear to 256", 16, 64, 256},
        {"linear to 64", 16, 256, 64}, {"linear to 256", 1, 64, 256},
    };
    uint32_t state = 1;
    for (unsigned i = 0; i < sizeof integers; i++) {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        integers[i] = state >> 24;
    }
    for (int i = 0; i < MOST; i++) multipliers[i] = 1 << 30, shifts[i] = -8;
    by = "cmsis-nn";
    for (int i = 0; i < 5; i++) {
        int n = shapes[i][0], d = shapes[i][1], memory = (n * n + n * d) / 4;
        measure("attention", by_fully_connected, n, n, d, n, d, memory);
        measure("attention", by_convolve, n, n, d, n, d, memory);
    }
    for (unsigned i = 0; i < sizeof layers / sizeof *layers; i++) {
        int rows = layers[i].rows, in = layers[i].in, out = layers[i].out;
        measure(layers[i].name, linear_fully_connected, rows, in, out, rows, in, 0);
        if (rows > 1) measure(layers[i].name, linear_convolve, rows, in, out, rows, in, 0);
    }
}
#endif

int main(void) {
    static const int shapes[5][2] = {{8, 8}, {16, 16}, {32, 32}, {64, 32}, {64, 64}};
    uint32_t state = 1;
    for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        numbers[i] = (state >> 8) / 8388608.0f - 1;
    }
    SYST[1] = 0xffffff;
    SYST[2] = 0;
    SYST[0] = 5;
    for (int i = 0; i < 5; i++) {
        int n = shapes[i][0], d = shapes[i][1];
        measure("attention", with_dot_products, n, n, d, n, d, n * n);
        measure("attention", with_products, n, n, d, n, d, n * n + n * d);
        measure("matmul", product, n, n, d, n, d, 0);
        if (d != 64) measure("softmax", one_softmax, 1, n, d, 1, n, 0);
    }
    measure("decode step", with_dot_products, 1, 64, 32, 64, 32, 64);
#ifdef CMSIS_NN
    with_integers(shapes);
#endif
    return 0;
}

extern uint32_t stack_top, data_start, data_end, data_load, bss_start, bss_end;

__attribute__((noreturn)) void reset(void) {
    *CPACR |= 0xf << 20; /* the FPU */
    __asm__ volatile("dsb\nisb");
    for (uint32_t *from = &data_load, *to = &data_start; to < &data_end;) *to++ = *from++;
    for (uint32_t *to = &bss_start; to < &bss_end;) *to++ = 0;
    main();
    semihosting(0x18, (void *)0x20026); /* the application ends */
    for (;;) {
    }
}

__attribute__((section(".vectors"), used)) static const void *const vectors[] = {&stack_top, reset};
