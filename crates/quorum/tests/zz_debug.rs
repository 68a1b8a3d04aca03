#![allow(missing_docs, dead_code, unused)]
include!("/tmp/mg/pc.rs");
#[test]
fn zz() {
    let n: u64 = std::env::var("AT").unwrap().parse().unwrap();
    let fs = SimFs::new(0);
    fs.crash_at_change(n);
    let mut a = Acknowledged::default();
    let e = runtime().block_on(work(&fs, &mut a));
    eprintln!("{a:?} {e:?}");
    let fs = fs.crash();
    eprintln!("--- recovery");
    runtime().block_on(async {
        let q = MetadataQuorum::open(options(&fs)).await.unwrap();
        eprintln!("{:?}", q.image().topics().map(|t| t.name.clone()).collect::<Vec<_>>());
    });
}
