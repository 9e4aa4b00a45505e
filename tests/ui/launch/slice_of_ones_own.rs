use ptx_launch::prelude::*;

struct Liar(Buffer<f32>);

impl ReadSlice<f32> for Liar {
    fn len(&self) -> usize {
        1 << 40
    }

    fn bind<'s>(&'s self, stream: ptx_launch::StreamRef<'s>) -> ptx_launch::Result<ptx_launch::Bound<'s>> {
        ReadSlice::bind(&&self.0, stream)
    }

    fn home(&self) -> Option<ptx_launch::StreamRef<'_>> {
        ReadSlice::home(&&self.0)
    }
}

impl WriteSlice<f32> for Liar {}

impl ptx_launch::ReadTile<f32, 2> for Liar {}

impl ptx_launch::WriteTile<f32, 2> for Liar {}

fn main() {}
