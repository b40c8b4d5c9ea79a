//! The image that measures itself. It prints a line for each operation: instructions, stack, scratch memory, and all memory of the
//! caller.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

#[cfg(target_os = "none")]
mod image {
    use regard_firmware::image::{Counter, println};
    use regard_firmware::{costs, memory, stack};

    regard_firmware::image!(run);

    fn run() -> i32 {
        let Some(mut counter) = Counter::take() else { return 1 };
        let done = costs::run(memory(), |cost, f| {
            let (stack, instructions) = (stack::peak(&mut *f), counter.count(&mut *f));
            let costs::Cost { name, shape: (n, d), by, scratch, tensors } = cost;
            println!("{name};{n}x{d};{by};{instructions};{stack};{scratch};{}", scratch + tensors);
        });
        i32::from(done.is_err())
    }
}

#[cfg(not(target_os = "none"))]
fn main() {}
