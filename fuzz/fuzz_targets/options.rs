#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| everypage_fuzz::options(data));
