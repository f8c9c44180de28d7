//! Any bytes as a server's messages.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pgsluice::wire::{
    Frames,
    backend::{
        Authentication, BackendKeyData, CommandComplete, CopyResponse, DataRow, ErrorFields, NegotiateProtocolVersion,
        Notification, ParameterDescription, ParameterStatus, RowDescription, TxStatus, data_row,
    },
};

fuzz_target!(|buf: &[u8]| {
    for frame in Frames::new(buf, 1 << 20).flatten() {
        let body = frame.body;
        let _ = (Authentication::parse(body), BackendKeyData::parse(body), CommandComplete::parse(body));
        let _ = (CopyResponse::parse(body), NegotiateProtocolVersion::parse(body), Notification::parse(body));
        let _ = (ParameterDescription::parse(body), ParameterStatus::parse(body), TxStatus::parse(body));
        if let Ok(fields) = ErrorFields::parse(body) {
            let letters = fields.iter().count();
            assert!(letters * 2 < body.len());
            let _ = (fields.sqlstate(), fields.severity(), fields.message());
        }
        if let Ok(rows) = RowDescription::parse(body) {
            assert_eq!(rows.fields().count(), usize::from(rows.count));
        }
        if let Ok(row) = DataRow::parse(body) {
            let columns: Result<Vec<_>, _> = row.columns().collect();
            if let (Ok(columns), true) = (columns, row.count > 0) {
                let mut out = Vec::new();
                data_row(&mut out, &columns);
                assert_eq!(&out[5..], body);
            }
        }
    }
});
