//! Rows and their descriptions: read only where pgsluice itself asked the question.

use super::super::{WireError, reader::Reader};

/// DataRow, `D`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataRow<'a> {
    /// Number of columns.
    pub count: u16,
    values: &'a [u8],
}

impl<'a> DataRow<'a> {
    /// Reads the count; the columns are checked as they are walked.
    ///
    /// # Errors
    /// Truncated.
    pub fn parse(body: &'a [u8]) -> Result<Self, WireError> {
        let mut r = Reader::new(body);
        Ok(Self { count: r.u16()?, values: r.rest() })
    }

    /// The columns in order; `None` is NULL.
    pub fn columns(&self) -> Columns<'a> {
        Columns { left: self.count, r: Reader::new(self.values) }
    }
}

/// Iterates over the columns of a [`DataRow`]; ends after the first error.
#[derive(Clone, Debug)]
pub struct Columns<'a> {
    left: u16,
    r: Reader<'a>,
}

impl<'a> Iterator for Columns<'a> {
    type Item = Result<Option<&'a [u8]>, WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let column = self.r.value().and_then(|value| match self.left {
            0 => self.r.end().map(|()| value),
            _ => Ok(value),
        });
        if column.is_err() {
            self.left = 0;
        }
        Some(column)
    }
}

/// One column of a [`RowDescription`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldDescription<'a> {
    /// Column name.
    pub name: &'a [u8],
    /// Table's oid, 0 if it is no table's column.
    pub table: u32,
    /// Attribute number in that table, 0 if none.
    pub attribute: i16,
    /// Type's oid.
    pub type_oid: u32,
    /// pg_type.typlen.
    pub type_size: i16,
    /// pg_attribute.atttypmod.
    pub type_modifier: i32,
    /// 0 text, 1 binary.
    pub format: i16,
}

/// RowDescription, `T`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowDescription<'a> {
    /// Number of columns.
    pub count: u16,
    fields: &'a [u8],
}

impl<'a> RowDescription<'a> {
    /// Reads and checks a whole body.
    ///
    /// # Errors
    /// Truncated, unterminated or left-over bytes.
    pub fn parse(body: &'a [u8]) -> Result<Self, WireError> {
        let mut r = Reader::new(body);
        let count = r.u16()?;
        let fields = r.rest();
        for _ in 0..count {
            field(&mut r)?;
        }
        r.end()?;
        Ok(Self { count, fields })
    }

    /// The columns in order.
    pub fn fields(&self) -> impl Iterator<Item = FieldDescription<'a>> + use<'a> {
        let mut r = Reader::new(self.fields);
        (0..self.count).map_while(move |_| field(&mut r).ok())
    }
}

fn field<'a>(r: &mut Reader<'a>) -> Result<FieldDescription<'a>, WireError> {
    Ok(FieldDescription {
        name: r.cstr()?,
        table: r.u32()?,
        attribute: r.i16()?,
        type_oid: r.u32()?,
        type_size: r.i16()?,
        type_modifier: r.i32()?,
        format: r.i16()?,
    })
}

/// CopyInResponse `G`, CopyOutResponse `H`, CopyBothResponse `W`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyResponse<'a> {
    /// 0 textual, 1 binary.
    pub format: u8,
    /// Column formats, two bytes each.
    pub columns: &'a [u8],
}

impl<'a> CopyResponse<'a> {
    /// Reads a whole body.
    ///
    /// # Errors
    /// Truncated or left-over bytes.
    pub fn parse(body: &'a [u8]) -> Result<Self, WireError> {
        let mut r = Reader::new(body);
        let format = r.u8()?;
        let count = r.u16()?;
        let columns = r.array_of(count, 2)?;
        r.end()?;
        Ok(Self { format, columns })
    }
}
