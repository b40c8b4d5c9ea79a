# From the reset vector to `x86_main` in long mode, without firmware. AT&T syntax.
#
#   real mode, at 4 GiB - 16 → protected mode → the image is copied from ROM to RAM → long mode with pages of 2 MiB, each
#   mapped to itself → SSE, AVX and AVX-512 switched on (CR4.OSXSAVE, XCR0), as an operating system does → x86_main

# The last 256 bytes below 4 GiB. The processor starts at 0xFFFFFFF0, with the base of CS at 0xFFFF0000.
.section .reset, "ax"
.code16
reset_start:
real_mode:
    cli
    cld
    lgdtl %cs:(0xff00 + rom_descriptors_pointer - reset_start)
    movl %cr0, %eax
    orb $1, %al
    movl %eax, %cr0
    ljmpl $8, $protected_mode
.balign 8
rom_descriptors:
    .quad 0
    .quad 0x00cf9a000000ffff            # 0x08: 32-bit code
    .quad 0x00cf92000000ffff            # 0x10: data
rom_descriptors_pointer:
    .word 23
    .long rom_descriptors
.code32
protected_mode:
    movw $0x10, %ax
    movw %ax, %ds
    movw %ax, %es
    movw %ax, %ss
    inb $0x92, %al                      # address line 20
    orb $2, %al
    andb $0xfe, %al
    outb %al, $0x92
    movl $image_rom, %esi
    movl $image_start, %edi
    movl $image_dwords, %ecx
    rep movsl
    movl $in_ram, %eax
    jmp *%eax
.code16
.org 0xf0                               # 0xFFFFFFF0
    jmp real_mode
.org 0x100

.section .boot, "ax"
.code32
.global in_ram
in_ram:
    movl $bss_start, %edi
    movl $bss_dwords, %ecx
    xorl %eax, %eax
    rep stosl
    lgdtl descriptors_pointer
    # The first GiB, mapped to itself.
    movl $page_directory_pointers + 3, page_map
    movl $page_directory + 3, page_directory_pointers
    movl $page_directory, %edi
    movl $0x83, %eax
    movl $512, %ecx
1:  movl %eax, (%edi)
    addl $0x200000, %eax
    addl $8, %edi
    loop 1b
    movl $page_map, %eax
    movl %eax, %cr3
    movl $0x40620, %eax                 # CR4: PAE, OSFXSR, OSXMMEXCPT, OSXSAVE
    movl %eax, %cr4
    movl $0xc0000080, %ecx              # EFER.LME
    rdmsr
    orl $0x100, %eax
    wrmsr
    movl $0x80000033, %eax              # CR0: PG, NE, ET, MP, PE; no emulation of the FPU, caches on
    movl %eax, %cr0
    ljmpl $0x18, $long_mode
.code64
long_mode:
    xorl %eax, %eax
    movl %eax, %ss
    movl %eax, %ds
    movl %eax, %es
    movl $stack_end, %esp
    movl $0xd, %eax                     # XCR0: the states of x87, SSE, AVX and AVX-512 (3 bits) that this model has
    xorl %ecx, %ecx
    cpuid
    andl $0xe7, %eax
    xorl %edx, %edx
    xorl %ecx, %ecx
    xsetbv
    fninit
    call x86_main
2:  hlt
    jmp 2b

.section .rodata.boot, "a"
.balign 8
descriptors:
    .quad 0
    .quad 0x00cf9a000000ffff
    .quad 0x00cf92000000ffff
    .quad 0x00af9a000000ffff            # 0x18: 64-bit code
descriptors_pointer:
    .word 31
    .long descriptors

.section .bss.boot, "aw", @nobits
.balign 4096
page_map: .skip 4096
page_directory_pointers: .skip 4096
page_directory: .skip 4096
stack: .skip 0x100000
stack_end:
.text
.code64
