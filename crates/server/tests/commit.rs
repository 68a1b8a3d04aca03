//! The tests of the build script, which cargo would not run by itself.

#![allow(dead_code, reason = "a build script's `main` is not called here")]

#[path = "../build.rs"]
mod build;
