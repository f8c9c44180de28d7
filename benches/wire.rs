//! How fast message heads are walked: the relay does this for every byte a server sends.

#![allow(missing_docs, reason = "criterion's macro makes a public function")]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pgsluice::wire::{Frames, backend, frontend, next_head};

/// 64 KiB of DataRows of 100 bytes each.
fn rows() -> Vec<u8> {
    let mut out = Vec::new();
    while out.len() < 64 * 1024 {
        backend::data_row(&mut out, &[Some(&[b'x'; 89])]);
    }
    out
}

fn frame_scan(c: &mut Criterion) {
    let buf = rows();
    let mut group = c.benchmark_group("frame_scan");
    group.throughput(Throughput::Bytes(buf.len() as u64));
    group.bench_function("frames_64KiB_of_100B_rows", |b| {
        b.iter(|| {
            let mut frames = Frames::new(black_box(&buf), 1 << 30);
            let rows = frames.by_ref().filter(|f| f.is_ok_and(|f| f.head.tag == backend::tag::DATA_ROW)).count();
            black_box((rows, frames.consumed()))
        });
    });
    group.bench_function("heads_64KiB_of_100B_rows", |b| {
        b.iter(|| {
            let mut rest = black_box(&buf[..]);
            let mut rows = 0;
            while let Ok(Some(head)) = next_head(rest, 1 << 30) {
                rows += u32::from(head.tag == backend::tag::DATA_ROW);
                rest = rest.get(head.total()..).unwrap_or_default();
            }
            black_box(rows)
        });
    });
    group.finish();
}

fn views(c: &mut Criterion) {
    let mut query = Vec::new();
    frontend::query(&mut query, &[b'q'; 100]);
    c.bench_function("query_view_100B", |b| b.iter(|| black_box(frontend::Query::parse(black_box(&query[5..])))));
    c.bench_function("scram_verifier_from_password", |b| {
        b.iter(|| black_box(pgsluice::wire::scram::Verifier::from_password(black_box(b"secret"))));
    });
}

criterion_group!(benches, frame_scan, views);
criterion_main!(benches);
