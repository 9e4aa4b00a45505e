//! Operands and constant expressions.

use super::operands;

#[test]
fn addresses() {
    assert_eq!(operands("ld.b32 %r1, [sym+-8];"), "%r1, [(+ sym (- 8))]");
    assert_eq!(operands("ld.b32 %r1, [%rd1 + 8];"), "%r1, [(+ %rd1 8)]");
    assert_eq!(operands("ld.b32 %r1, [%rd1-8];"), "%r1, [(- %rd1 8)]");
    assert_eq!(operands("ld.b32 %r1, [16];"), "%r1, [16]");
    assert_eq!(operands("ld.const.b32 %r1, [a].unified, %rd2;"), "%r1, (select [a] .unified), %rd2");
    assert_eq!(operands("ld.global.u32 s, a[2+1];"), "s, (index a (+ 2 1))");
    assert_eq!(operands("tex.2d.v4.f32.f32 {a,b,_,0}, [t, {x,y}];"), "{a b _ 0}, [t {x y}]");
}

#[test]
fn names_with_fields() {
    assert_eq!(operands("mov.u32 %r1, %tid.x;"), "%r1, %tid.x");
    assert_eq!(operands("vadd.u32.u32.u32 d, a.b0, -b.h1, c;"), "d, a.b0, (- b.h1), c");
    assert_eq!(operands("foo 1.x;"), "1.x");
    assert_eq!(operands("shfl.sync.idx.b32 %r1|%p1, %r2, 0, 31, -1;"), "%r1|%p1, %r2, 0, 31, (- 1)");
    assert_eq!(operands("setp.lt.and.s32 p|q, a, b, !r;"), "p|q, a, b, (! r)");
    assert_eq!(operands("setp.lt.s32 p | _, a, b;"), "p|_, a, b");
}

#[test]
fn calls() {
    assert_eq!(operands("call.uni (r0), f, (p0, p1);"), "<r0>, f, <p0 p1>");
    assert_eq!(operands("call (%v),f,(%a);"), "<%v>, f, <%a>");
    assert_eq!(operands("call f, ();"), "f, <>");
    assert_eq!(operands("call f;"), "f");
    assert_eq!(operands("call (r), %rd1, (p), proto;"), "<r>, %rd1, <p>, proto");
}

#[test]
fn numbers() {
    assert_eq!(operands("a 0x1F, 017, 0b101, 7U, 18446744073709551616;"), "31, 15, 5, 7, 0");
    assert_eq!(operands("a .5, 1.e3, 0f3F800000;"), ".5, 1.e3, 0f3F800000");
}

#[test]
fn precedence() {
    assert_eq!(operands("a 1+2*3-4;"), "(- (+ 1 (* 2 3)) 4)");
    assert_eq!(operands("a 1|2^3&4==5<6<<7+8%-9;"), "(| 1 (^ 2 (& 3 (== 4 (< 5 (<< 6 (+ 7 (% 8 (- 9)))))))))");
    assert_eq!(operands("a 1||2&&3;"), "(|| 1 (&& 2 3))");
    assert_eq!(operands("a 1>=2, 1!=2, 1 >> 2, 1 <= 2;"), "(>= 1 2), (!= 1 2), (>> 1 2), (<= 1 2)");
    assert_eq!(operands("a (1+2)*3;"), "(* <(+ 1 2)> 3)");
    assert_eq!(operands("a 1 ? 2 : 3 ? 4 : 5;"), "(? 1 2 (? 3 4 5))");
    assert_eq!(operands("a ((.u64) -5 + 2);"), "<(+ (cast .u64 (- 5)) 2)>");
    assert_eq!(operands("a !~+-1;"), "(! (~ (+ (- 1))))");
}
