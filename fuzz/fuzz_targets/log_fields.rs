#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| logway_fuzz_targets::log_fields(bytes));
