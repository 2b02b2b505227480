//! Which `syscall` instructions may be replaced, on code made by hand.

mod patches_library;

use forebay_protocol::layout::{CLONE3, Displaced};
use forebay_supervisor::patches::{Census, PatchError, Site, Tier, Within, examine, find, select};
use patches_library::{BUILD_ID, Library, TEXT};

/// `xor eax, eax; syscall; cmp rax, -4096; ret`, with the call at 2 and its end at 10.
const READ: [u8; 11] = [0x31, 0xc0, 0x0f, 0x05, 0x48, 0x3d, 0x00, 0xf0, 0xff, 0xff, 0xc3];
const CALL_AT: u64 = 2;
const END_AT: u64 = 10;

fn sites(library: &Library) -> Vec<Site> {
    find(&library.file()).unwrap().sites
}

fn census(library: &Library) -> Census {
    examine(&library.file()).unwrap().1
}

fn site(at: u64, number: Option<u16>) -> Site {
    Site { offset: (TEXT + at) as u32, displaced: Displaced::CmpRaxFffff000, number, within: Within::Other }
}

/// `mov eax, 12; syscall`, as in `brk`.
const BRK: [u8; 7] = [0xb8, 12, 0, 0, 0, 0x0f, 0x05];
/// `cmp rax, rdi; ret`.
const COMPARE: [u8; 4] = [0x48, 0x39, 0xf8, 0xc3];

fn brk_site(at: u64) -> Site {
    Site { displaced: Displaced::MovEaxNumber, ..site(at, Some(12)) }
}

/// A two-byte jump at `from` to `to`.
fn short_jump(from: u64, to: u64) -> [u8; 2] {
    [0xeb, (to as i64 - from as i64 - 2) as u8]
}

/// `READ` with code in front that is never longer than 8 bytes, which is padded with no-operations.
fn read_after(front: &[u8]) -> Vec<u8> {
    let mut code = front.to_vec();
    code.resize(8, 0x90);
    code.extend(READ);
    code
}

#[test]
fn a_call_before_each_comparison_is_found() {
    for displaced in [Displaced::CmpRaxFffff000, Displaced::CmpRaxFffff001, Displaced::CmpEaxFffff000] {
        let comparison = &displaced.site_code(0)[2..displaced.site_len()];
        let code = [&[0xb8, 0x01, 0x01, 0, 0, 0x0f, 0x05], comparison, &[0xc3]].concat();
        let table = find(&Library::of(&code).file()).unwrap();
        assert_eq!(table.build_id, BUILD_ID);
        assert_eq!(table.sites, [Site { displaced, ..site(5, Some(257)) }]);
    }
}

#[test]
fn a_call_before_anything_else_is_left() {
    for behind in [
        &[0xc3][..],
        &[0x48, 0x85, 0xc0],
        &[0x48, 0x3d, 0xfc, 0xff, 0xff, 0xff],
        &[0x3d, 0x01, 0xf0, 0xff, 0xff],
    ] {
        let code = [&READ[..4], behind, &[0xc3]].concat();
        let found = census(&Library::of(&code));
        assert_eq!((found.syscalls, found.displaceable), (1, [0; 4]));
    }
}

#[test]
fn a_call_behind_its_number_is_found_where_the_flags_are_set_anew() {
    for behind in [
        // As in Debian 12: mov rdx, [rip + 0xd51e2]; mov [rdx], rax.
        &[0x48, 0x8b, 0x15, 0xe2, 0x51, 0x0d, 0x00, 0x48, 0x89, 0x02][..],
        // With a variable of its own: mov [rip + 0xd51e2], rax.
        &[0x48, 0x89, 0x05, 0xe2, 0x51, 0x0d, 0x00],
        // Nothing; test eax, eax; inc eax; a jump that depends on the comparison alone: cmp rax, rdi; jb +0.
        &[],
        &[0x85, 0xc0],
        &[0xff, 0xc0],
        &[0x48, 0x39, 0xf8, 0x72, 0x00],
        // call +0; call rax; ret: nothing passes them in the flags.
        &[0xe8, 0, 0, 0, 0],
        &[0xff, 0xd0],
        &[0xc3],
    ] {
        let code = [&BRK, behind, &COMPARE].concat();
        assert_eq!(sites(&Library::of(&code)), [brk_site(0)], "{behind:x?}");
    }
}

#[test]
fn a_call_behind_its_number_is_left_where_flags_may_be_used() {
    for behind in [
        // je +0; sete al; adc eax, eax; pushfq; lahf.
        &[0x74, 0x00][..],
        &[0x0f, 0x94, 0xc0],
        &[0x11, 0xc0],
        &[0x9c],
        &[0x9f],
        // inc eax; jb +0: what sets some only.
        &[0xff, 0xc0, 0x72, 0x00],
        // jmp +0; syscall; hlt; bytes that are no instruction; more than is looked at.
        &[0xeb, 0x00],
        &[0x0f, 0x05],
        &[0xcc],
        &[0x06],
        &[0x90; 8],
    ] {
        let code = [&BRK, behind, &COMPARE].concat();
        let found = census(&Library::of(&code));
        assert_eq!((found.displaceable, found.flags), ([0, 0, 0, 1], 1), "{behind:x?}");
        assert_eq!(sites(&Library::of(&code)), []);
    }
    // Or where the function ends before it shows.
    assert_eq!(census(&Library::new().function(&BRK).loose(&COMPARE)).flags, 1);
}

#[test]
fn a_number_that_is_not_loaded_just_before_by_its_shortest_form_is_not_displaced() {
    for front in [
        // mov eax, 12; nop.
        &[0xb8, 12, 0, 0, 0, 0x90][..],
        // mov rax, 12; mov eax, 12 in six bytes; mov r8d, 12; mov ecx, 12; mov al, 12.
        &[0x48, 0xc7, 0xc0, 12, 0, 0, 0],
        &[0xc7, 0xc0, 12, 0, 0, 0],
        &[0x41, 0xb8, 12, 0, 0, 0],
        &[0xb9, 12, 0, 0, 0],
        &[0xb0, 12],
        // Numbers that no call has.
        &[0xb8, 0xff, 0x0f, 0, 0],
        &[0xb8, 12, 0, 1, 0],
    ] {
        let code = [front, &BRK[5..], &COMPARE].concat();
        let found = census(&Library::of(&code));
        assert_eq!((found.syscalls, found.displaceable), (1, [0; 4]), "{front:x?}");
    }
    let parted = Library::new().function(&BRK[..5]).function(&[&BRK[5..], &COMPARE].concat());
    assert_eq!(census(&parted).displaceable, [0; 4]);
}

#[test]
fn a_jump_to_any_byte_from_the_number_to_the_call_disqualifies() {
    for at in 0..=BRK.len() as u64 {
        let code = [&short_jump(0, 8 + at)[..], &[0x90; 6], &BRK, &COMPARE].concat();
        let library = Library::of(&code);
        let inside = (1..BRK.len() as u64).contains(&at);
        assert_eq!(sites(&library), if inside { vec![] } else { vec![brk_site(8)] }, "jump to {at}");
        assert_eq!(census(&library).entered, usize::from(inside));
    }
}

#[test]
fn bytes_inside_another_instruction_are_no_call() {
    // movabs rax, 0xfff0003d48050f90; then what would be the rest of the comparison.
    let code = [0x48, 0xb8, 0x90, 0x0f, 0x05, 0x48, 0x3d, 0x00, 0xf0, 0xff, 0xc3];
    assert_eq!(census(&Library::of(&code)).syscalls, 0);
}

#[test]
fn a_call_with_a_prefix_is_left() {
    for mut code in [READ.to_vec(), [&BRK[..], &COMPARE].concat()] {
        let call = code.windows(2).position(|bytes| bytes == [0x0f, 0x05]).unwrap();
        code.insert(call, 0x48);
        let found = census(&Library::of(&code));
        assert_eq!((found.syscalls, found.entered), (1, 1));
    }
}

#[test]
fn a_comparison_cut_off_by_the_end_of_the_function_is_none() {
    let library = Library::new().function(&READ[..END_AT as usize - 1]).loose(&READ[END_AT as usize - 1..]);
    assert_eq!(census(&library).displaceable, [0; 4]);
}

#[test]
fn a_jump_to_any_byte_inside_disqualifies_and_one_to_either_end_does_not() {
    for at in 0..=READ.len() as u64 - 1 {
        let library = Library::of(&read_after(&short_jump(0, 8 + at)));
        let inside = (CALL_AT + 1..END_AT).contains(&at);
        assert_eq!(sites(&library).is_empty(), inside, "jump to {at}");
        assert_eq!(census(&library).entered, usize::from(inside));
    }
}

#[test]
fn a_conditional_jump_backwards_into_the_comparison_disqualifies() {
    let mut code = READ[..10].to_vec();
    code.extend([0x77, -(12 - 4i8) as u8, 0xc3]);
    assert_eq!(sites(&Library::of(&code)), []);
}

#[test]
fn a_call_or_jump_from_another_function_disqualifies() {
    for opcode in [0xe8, 0xe9] {
        for (target, wanted) in [(CALL_AT + 2, 0), (CALL_AT, 1)] {
            let displacement = (target as i32) - (READ.len() as i32 + 5);
            let far = [&[opcode][..], &displacement.to_le_bytes(), &[0xc3]].concat();
            assert_eq!(sites(&Library::of(&READ).function(&far)).len(), wanted);
            // Also from code that nothing describes.
            assert_eq!(sites(&Library::of(&READ).loose(&far)).len(), wanted);
        }
    }
}

#[test]
fn an_address_taken_disqualifies() {
    // lea rcx, [rip + (8 + 4 - 7)]
    let code = read_after(&[0x48, 0x8d, 0x0d, 5, 0, 0, 0]);
    assert_eq!(sites(&Library::of(&code)), []);
    // The same of the call itself.
    let code = read_after(&[0x48, 0x8d, 0x0d, 3, 0, 0, 0]);
    assert_eq!(sites(&Library::of(&code)), [site(10, None)]);
}

#[test]
fn pointers_relocations_symbols_and_functions_inside_disqualify() {
    let inside = CALL_AT + 2;
    assert_eq!(sites(&Library::of(&READ).pointer(inside)), []);
    assert_eq!(sites(&Library::of(&READ).pointer(CALL_AT)).len(), 1);
    assert_eq!(sites(&Library::of(&READ).relocation(inside)), []);
    assert_eq!(sites(&Library::of(&READ).relocation(END_AT)).len(), 1);
    assert_eq!(sites(&Library::of(&READ).symbol("inside", inside..END_AT)), []);
    assert_eq!(sites(&Library::of(&READ).symbol("whole", 0..11)).len(), 1);
    let cut = Library::new().function(&READ[..inside as usize]).function(&READ[inside as usize..]);
    assert_eq!(sites(&cut), []);
}

/// Language-specific data with one call site whose landing pad is at `pad`.
fn lsda(pad: u8) -> [u8; 8] {
    [0xff, 0xff, 0x01, 4, 0, 11, pad, 0]
}

#[test]
fn a_landing_pad_inside_disqualifies() {
    let with = |lsda: &[u8]| Library::new().with_landing_pads(&READ, lsda);
    for at in 1..=10 {
        let inside = (CALL_AT + 1..END_AT).contains(&u64::from(at));
        assert_eq!(sites(&with(&lsda(at))).is_empty(), inside, "pad at {at}");
    }
}

#[test]
fn a_function_whose_landing_pads_cannot_be_read_is_left_alone() {
    for damaged in [
        &[0x00, 0xff, 0x01, 0][..],
        &[0xff, 0xff, 0x50, 4, 0, 1, 2, 3],
        &[0xff, 0xff, 0x01, 0xff, 0xff, 0x7f],
    ] {
        let library = Library::new().with_landing_pads(&READ, damaged);
        assert_eq!((sites(&library).len(), census(&library).unclear), (0, 1));
    }
}

#[test]
fn a_function_with_bytes_that_are_no_instruction_is_left_alone() {
    let code = [&READ[..], &[0x06]].concat();
    assert_eq!(census(&Library::of(&code)).unclear, 1);
}

#[test]
fn code_that_nothing_describes_is_left_alone() {
    assert_eq!(census(&Library::new().loose(&READ)).outside, 1);
    // A symbol is description enough.
    assert_eq!(sites(&Library::new().loose(&READ).symbol("read", 0..11)), [site(CALL_AT, Some(0))]);
}

/// `movsxd rax, [rdx + 4 * rax]; add rax, rdx; jmp rax`: a jump table of offsets.
const TABLE_JUMP: [u8; 9] = [0x48, 0x63, 0x04, 0x82, 0x48, 0x01, 0xd0, 0xff, 0xe0];

#[test]
fn a_function_that_jumps_to_a_calculated_address_is_left_alone() {
    let code = [&READ[..10], &TABLE_JUMP].concat();
    let found = census(&Library::of(&code));
    assert_eq!((found.calculated, found.calculating_functions), (1, 1));
    // Put aside on the stack meanwhile: push rax; jmp [rsp].
    let code = [&READ[..10], &[0x48, 0x01, 0xd0, 0x50, 0xff, 0x24, 0x24]].concat();
    assert_eq!(census(&Library::of(&code)).calculated, 1);
    // And taken from there again: mov rax, [rsp]; jmp rax.
    let code = [&READ[..10], &[0x48, 0x8b, 0x04, 0x24, 0xff, 0xe0]].concat();
    assert_eq!(census(&Library::of(&code)).calculated, 1);
}

#[test]
fn a_jump_through_a_table_of_functions_is_harmless() {
    // mov rax, [rdi + 0x20]; jmp rax
    let code = [&READ[..10], &[0x48, 0x8b, 0x47, 0x20, 0xff, 0xe0]].concat();
    assert_eq!(sites(&Library::of(&code)), [site(CALL_AT, Some(0))]);
    // jmp [rdi + 0x20]
    let code = [&READ[..10], &[0xff, 0x67, 0x20]].concat();
    assert_eq!(sites(&Library::of(&code)), [site(CALL_AT, Some(0))]);
    // With the guard taken off: mov rax, [rdi]; ror rax, 17; xor rax, fs:[0x30]; jmp rax
    let guarded =
        [0x48, 0x8b, 0x07, 0x48, 0xc1, 0xc8, 0x11, 0x64, 0x48, 0x33, 0x04, 0x25, 0x30, 0, 0, 0, 0xff, 0xe0];
    let code = [&READ[..10], &guarded].concat();
    assert_eq!(sites(&Library::of(&code)), [site(CALL_AT, Some(0))]);
}

#[test]
fn a_pointer_that_is_one_on_one_way_only_counts_as_calculated() {
    // mov rax, [rdi]; test esi, esi; je +3; add rax, rsi; jmp rax
    let either = [0x48, 0x8b, 0x07, 0x85, 0xf6, 0x74, 0x03, 0x48, 0x01, 0xf0, 0xff, 0xe0];
    let code = [&READ[..10], &either].concat();
    assert_eq!(census(&Library::of(&code)).calculated, 1);
}

#[test]
fn the_other_part_of_a_function_that_calculates_jumps_is_left_alone() {
    // The second function jumps into the middle of the first, which makes them one.
    let first = [&[0x90][..], &READ].concat();
    let perhaps = |to| [0x74, short_jump(12, to)[1]];
    let second = [&perhaps(1)[..], &TABLE_JUMP].concat();
    assert_eq!(census(&Library::of(&first).function(&second)).calculated, 1);
    // A jump to its start is an ordinary call in last position.
    let second = [&perhaps(0)[..], &TABLE_JUMP].concat();
    assert_eq!(sites(&Library::of(&first).function(&second)), [site(3, Some(0))]);
}

#[test]
fn a_number_is_followed_through_copies_and_around_loops() {
    // As in _exit: mov esi, 231; mov edx, 60; jmp second; first: mov eax, edx; syscall; cmp; ja out; hlt;
    // second: mov eax, esi; syscall; cmp; jbe first; out: ret
    let code = [
        &[0xbe, 231, 0, 0, 0, 0xba, 60, 0, 0, 0, 0xeb, 13][..],
        &[0x89, 0xd0, 0x0f, 0x05, 0x48, 0x3d, 0x00, 0xf0, 0xff, 0xff, 0x77, 13, 0xf4],
        &[0x89, 0xf0, 0x0f, 0x05, 0x48, 0x3d, 0x00, 0xf0, 0xff, 0xff, 0x76, 0xe7, 0xc3],
    ]
    .concat();
    assert_eq!(sites(&Library::of(&code)), [site(14, Some(60)), site(27, Some(231))]);
}

#[test]
fn a_number_that_is_not_the_same_on_all_ways_is_unknown() {
    // mov eax, 1; test edi, edi; je +2; xor eax, eax; syscall; cmp; ret
    let front = [0xb8, 1, 0, 0, 0, 0x85, 0xff, 0x74, 0x02];
    let code = [&front[..], &READ].concat();
    assert_eq!(sites(&Library::of(&code)), [site(11, None)]);
    // The same number on both ways is known.
    let front = [0x31, 0xc0, 0x90, 0x90, 0x90, 0x85, 0xff, 0x74, 0x02];
    let code = [&front[..], &READ].concat();
    assert_eq!(sites(&Library::of(&code)), [site(11, Some(0))]);
    // Something may arrive between.
    assert_eq!(sites(&Library::of(&READ).pointer(CALL_AT)), [site(CALL_AT, None)]);
}

#[test]
fn a_number_is_forgotten_when_its_register_changes() {
    for change in
        [&[0x0f, 0xa2][..], &[0x04, 0x01], &[0xe8, 0, 0, 0, 0], &[0xf7, 0xe1], &[0x58], &[0x0f, 0x44, 0xc1]]
    {
        let code = [&READ[..2], change, &READ[2..]].concat();
        assert_eq!(sites(&Library::of(&code))[0].number, None, "{change:x?}");
    }
}

#[test]
fn numbers_that_no_call_has_are_unknown() {
    for number in [0xfffu32, 0x1000, 0xffff_ffff] {
        let code = [&[0xb8][..], &number.to_le_bytes(), &READ[2..]].concat();
        assert_eq!(sites(&Library::of(&code)), [site(5, None)]);
    }
}

#[test]
fn calls_of_interest_are_selected() {
    let call = |number: u8| [&[0xb8, number, 0, 0, 0][..], &READ[2..]].concat();
    let apart = vec![0xcc; 0x2000];
    // read; mmap on its page; getpid; munmap on a page of its own; syscall, which may make any call, on another.
    let library = Library::of(&call(0))
        .function(&call(9))
        .function(&call(39))
        .loose(&apart)
        .function(&call(11))
        .loose(&apart)
        .function(&READ[2..])
        .symbol("syscall", 0x4038..0x4041);
    let table = find(&library.file()).unwrap();
    let numbers = |tier| select(&table, tier).iter().map(|site| site.number).collect::<Vec<_>>();
    assert_eq!(table.sites.len(), 5);
    assert_eq!(numbers(Tier::All), [Some(0), Some(9), Some(11), None]);
    assert_eq!(numbers(Tier::Essential), [Some(0), Some(9), None]);
}

#[test]
fn a_call_whose_result_is_compared_elsewhere_is_selected_there() {
    let numbered = |number: u8| [&[0xb8, number, 0, 0, 0], &BRK[5..], &COMPARE].concat();
    let close = [&[0xb8, 3, 0, 0, 0], &READ[2..]].concat();
    // close with and without a comparison, the latter on a page of its own, and brk.
    let apart = vec![0xcc; 0x2000];
    let library = Library::of(&close).loose(&apart).function(&numbered(3)).loose(&apart);
    let table = find(&library.function(&numbered(12)).file()).unwrap();
    let selected = |tier| select(&table, tier).iter().map(|site| site.number).collect::<Vec<_>>();
    assert_eq!(selected(Tier::All), [Some(3), Some(3), Some(12)]);
    assert_eq!(selected(Tier::Essential), [Some(3), Some(12)]);
}

#[test]
fn an_unknown_call_is_selected_in_syscall_only() {
    let table = find(&Library::of(&READ[2..]).file()).unwrap();
    assert_eq!(select(&table, Tier::All), []);
    let table = find(&Library::of(&READ[2..]).symbol("syscall", 0..9).file()).unwrap();
    assert_eq!(table.sites[0].within, Within::Syscall);
    assert_eq!(select(&table, Tier::All), table.sites);
    assert_eq!(select(&table, Tier::Essential), table.sites);
}

#[test]
fn errors_tell_what_was_found() {
    let file = Library::of(&READ).file();
    let text = |file: &[u8]| find(file).unwrap_err().to_string();

    let mut other = file.clone();
    other[18] = 183;
    assert_eq!(text(&other), "not a library that can be patched: its machine is 183, not 62 (x86-64)");
    let mut program = file.clone();
    program[16] = 2;
    assert_eq!(text(&program), "not a library that can be patched: its type is 2, not 3 (shared object)");
    let mut anonymous = file.clone();
    anonymous[0x208] = 1;
    assert_eq!(text(&anonymous), "the library has no build-id");
    assert!(matches!(find(b"#!/bin/sh"), Err(PatchError::Malformed { what: "file header", .. })));
    assert!(matches!(
        find(&file[..file.len() - 1]),
        Err(PatchError::Malformed { what: "section headers", .. })
    ));
}

/// `mov eax, NUMBER` at the end of a function, and behind it `syscall; test rax, rax; ret`, which nothing describes.
fn parted(number: u16) -> Library {
    let [low, high] = number.to_le_bytes();
    Library::new().function(&[0xb8, low, high, 0, 0]).loose(&[0x0f, 0x05, 0x48, 0x85, 0xc0, 0xc3])
}

#[test]
fn the_call_that_starts_a_child_on_another_stack_is_found_behind_its_function() {
    let found = Site { displaced: Displaced::MovEaxNumber, ..site(0, Some(CLONE3)) };
    let table = find(&parted(CLONE3).file()).unwrap();
    assert_eq!(table.sites, [found]);
    assert_eq!(select(&table, Tier::Essential), [found]);
    for inside in [1, 5, 6] {
        assert_eq!(sites(&parted(CLONE3).pointer(inside)), [], "code may arrive at byte {inside}");
    }
    assert_eq!(census(&parted(12)).outside, 1, "another call");
    let apart =
        Library::new().function(&[0xb8, 0xb3, 1, 0, 0]).loose(&[0x90, 0x0f, 0x05, 0x48, 0x85, 0xc0, 0xc3]);
    assert_eq!(sites(&apart), [], "the number is not loaded just before");
    let behind =
        Library::new().function(&[0xc3]).loose(&[0xb8, 0xb3, 1, 0, 0, 0x0f, 0x05, 0x48, 0x85, 0xc0, 0xc3]);
    assert_eq!(sites(&behind), [], "no function has the load");
}
