//! Expressions, control flow among them.

use super::Reader;
use ptx_core::span::Span;
use ptx_language::tree::{BinaryOp, Expr, ExprKind, Ident, UnaryOp};
use syn::spanned::Spanned;

impl Reader {
    /// An expression.
    pub fn expr(&mut self, expr: &syn::Expr) -> Expr {
        match expr {
            syn::Expr::Paren(e) => self.parenthesized(e),
            syn::Expr::Group(e) => self.expr(&e.expr),
            syn::Expr::Lit(e) => self.literal(&e.lit),
            syn::Expr::Path(e) => self.path_expr(e),
            syn::Expr::Unary(e) => self.unary(e),
            syn::Expr::Binary(e) => self.binary(e),
            syn::Expr::Assign(e) => self.assign(e),
            syn::Expr::Cast(e) => self.cast(e),
            syn::Expr::Field(e) => self.field(e),
            syn::Expr::Index(e) => self.index(e),
            syn::Expr::Range(e) => self.range(e),
            syn::Expr::Call(e) => self.call(e),
            syn::Expr::MethodCall(e) => self.method(e),
            syn::Expr::Array(e) => self.array(e),
            syn::Expr::Repeat(e) => self.repeat(e),
            syn::Expr::Tuple(e) => self.tuple(e),
            syn::Expr::Reference(e) => self.reference(e),
            syn::Expr::Struct(e) => self.struct_expr(e),
            syn::Expr::If(e) => self.if_(e),
            syn::Expr::Match(e) => self.match_(e),
            syn::Expr::While(e) => self.while_(e),
            syn::Expr::Loop(e) => self.loop_(e),
            syn::Expr::ForLoop(e) => self.for_(e),
            syn::Expr::Block(e) => self.block_expr(e),
            syn::Expr::Break(e) => self.break_(e),
            syn::Expr::Continue(e) => self.continue_(e),
            syn::Expr::Return(e) => self.return_(e),
            other => self.refuse_expr(other),
        }
    }

    pub fn boxed(&mut self, expr: &syn::Expr) -> Box<Expr> {
        Box::new(self.expr(expr))
    }

    fn exprs<'a>(&mut self, exprs: impl IntoIterator<Item = &'a syn::Expr>) -> Vec<Expr> {
        exprs.into_iter().map(|e| self.expr(e)).collect()
    }

    /// Parentheses have no node, but they belong to what is underlined.
    fn parenthesized(&mut self, e: &syn::ExprParen) -> Expr {
        let open = self.host.token(e.paren_token.span.open());
        let inner = self.expr(&e.expr);
        Expr { span: open.to(self.host.token(e.paren_token.span.close())), ..inner }
    }

    fn path_expr(&mut self, e: &syn::ExprPath) -> Expr {
        if let Some(qself) = &e.qself {
            self.refuse(&qself.ty, "qualified path", "write a name, or `module::name`");
        }
        let (path, span) = self.path(&e.path);
        Expr { kind: ExprKind::Path(path), span }
    }

    fn unary(&mut self, e: &syn::ExprUnary) -> Expr {
        let (op, at) = match &e.op {
            syn::UnOp::Neg(t) => (UnaryOp::Neg, t.span()),
            syn::UnOp::Not(t) => (UnaryOp::Not, t.span()),
            syn::UnOp::Deref(t) => {
                let start = self.host.token(t.span());
                if let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::ByteStr(text), .. }) = &*e.expr {
                    return super::literal::bytes(text, start.to(self.host.token(text.span())));
                }
                let inner = self.boxed(&e.expr);
                return Expr { span: start.to(inner.span), kind: ExprKind::Deref(inner) };
            }
            _ => return self.refuse_expr(&syn::Expr::Unary(e.clone())),
        };
        let start = self.host.token(at);
        let inner = self.boxed(&e.expr);
        Expr { span: start.to(inner.span), kind: ExprKind::Unary(op, inner) }
    }

    fn binary(&mut self, e: &syn::ExprBinary) -> Expr {
        let left = self.boxed(&e.left);
        let at = self.host.syntax(&e.op);
        let right = self.boxed(&e.right);
        let span = left.span.to(right.span);
        let kind = operator(&e.op).map(|(op, make)| make(op, at, left, right));
        Expr { kind: kind.unwrap_or(ExprKind::Error), span }
    }

    fn assign(&mut self, e: &syn::ExprAssign) -> Expr {
        let (to, value) = (self.boxed(&e.left), self.boxed(&e.right));
        Expr { span: to.span.to(value.span), kind: ExprKind::Assign(to, value) }
    }

    fn cast(&mut self, e: &syn::ExprCast) -> Expr {
        let inner = self.boxed(&e.expr);
        let ty = Box::new(self.ty(&e.ty));
        Expr { span: inner.span.to(ty.span), kind: ExprKind::Cast(inner, ty) }
    }

    fn field(&mut self, e: &syn::ExprField) -> Expr {
        let base = self.boxed(&e.base);
        let name = match &e.member {
            syn::Member::Named(name) => self.ident(name),
            syn::Member::Unnamed(index) => Ident { name: index.index.to_string(), span: self.host.token(index.span) },
        };
        Expr { span: base.span.to(name.span), kind: ExprKind::Field(base, name) }
    }

    fn index(&mut self, e: &syn::ExprIndex) -> Expr {
        let (base, at) = (self.boxed(&e.expr), self.boxed(&e.index));
        let end = self.host.token(e.bracket_token.span.close());
        Expr { span: base.span.to(end), kind: ExprKind::Index(base, at) }
    }

    fn range(&mut self, e: &syn::ExprRange) -> Expr {
        let start = e.start.as_ref().map(|e| self.boxed(e));
        let dots = self.host.syntax(&e.limits);
        let end = e.end.as_ref().map(|e| self.boxed(e));
        let span = start.as_ref().map_or(dots, |s| s.span.to(dots)).to(end.as_ref().map_or(dots, |e| e.span));
        let inclusive = matches!(e.limits, syn::RangeLimits::Closed(_));
        Expr { kind: ExprKind::Range(start, end, inclusive), span }
    }

    fn call(&mut self, e: &syn::ExprCall) -> Expr {
        let function = self.boxed(&e.func);
        let args = self.exprs(&e.args);
        let end = self.host.token(e.paren_token.span.close());
        Expr { span: function.span.to(end), kind: ExprKind::Call(function, args) }
    }

    fn method(&mut self, e: &syn::ExprMethodCall) -> Expr {
        let receiver = self.boxed(&e.receiver);
        let name = self.ident(&e.method);
        let generics = e.turbofish.iter().flat_map(|t| &t.args).map(|a| self.generic_arg(a)).collect();
        let args = self.exprs(&e.args);
        let end = self.host.token(e.paren_token.span.close());
        Expr { span: receiver.span.to(end), kind: ExprKind::Method(receiver, name, generics, args) }
    }

    fn array(&mut self, e: &syn::ExprArray) -> Expr {
        let open = self.host.token(e.bracket_token.span.open());
        let kind = ExprKind::Array(self.exprs(&e.elems));
        Expr { kind, span: open.to(self.host.token(e.bracket_token.span.close())) }
    }

    fn repeat(&mut self, e: &syn::ExprRepeat) -> Expr {
        let open = self.host.token(e.bracket_token.span.open());
        let kind = ExprKind::Repeat(self.boxed(&e.expr), self.boxed(&e.len));
        Expr { kind, span: open.to(self.host.token(e.bracket_token.span.close())) }
    }

    fn tuple(&mut self, e: &syn::ExprTuple) -> Expr {
        let open = self.host.token(e.paren_token.span.open());
        let kind = ExprKind::Tuple(self.exprs(&e.elems));
        Expr { kind, span: open.to(self.host.token(e.paren_token.span.close())) }
    }

    fn reference(&mut self, e: &syn::ExprReference) -> Expr {
        let start = self.host.token(e.and_token.span());
        let inner = self.boxed(&e.expr);
        Expr { span: start.to(inner.span), kind: ExprKind::Ref(e.mutability.is_some(), inner) }
    }

    /// `Pair { first: a, second }`
    fn struct_expr(&mut self, e: &syn::ExprStruct) -> Expr {
        let (path, start) = self.path(&e.path);
        let mut fields = Vec::with_capacity(e.fields.len());
        for field in &e.fields {
            let syn::Member::Named(name) = &field.member else {
                self.refuse(&field.member, "structs without names for their fields", "name the field");
                continue;
            };
            fields.push((self.ident(name), self.expr(&field.expr)));
        }
        let base = e.rest.as_ref().map(|base| self.boxed(base));
        let end = self.host.token(e.brace_token.span.close());
        Expr { kind: ExprKind::Struct(path, fields, base), span: start.to(end) }
    }

    fn if_(&mut self, e: &syn::ExprIf) -> Expr {
        let start = self.host.token(e.if_token.span());
        let condition = self.boxed(&e.cond);
        let then = self.block(&e.then_branch);
        let otherwise = e.else_branch.as_ref().map(|(_, e)| self.boxed(e));
        let end = otherwise.as_ref().map_or(then.span, |e| e.span);
        Expr { kind: ExprKind::If(condition, then, otherwise), span: start.to(end) }
    }

    fn while_(&mut self, e: &syn::ExprWhile) -> Expr {
        let (label, start) = self.head(e.label.as_ref(), e.while_token.span());
        let condition = self.boxed(&e.cond);
        let body = self.block(&e.body);
        Expr { span: start.to(body.span), kind: ExprKind::While(label, condition, body) }
    }

    fn loop_(&mut self, e: &syn::ExprLoop) -> Expr {
        let (label, start) = self.head(e.label.as_ref(), e.loop_token.span());
        let body = self.block(&e.body);
        Expr { span: start.to(body.span), kind: ExprKind::Loop(label, body) }
    }

    fn for_(&mut self, e: &syn::ExprForLoop) -> Expr {
        let (label, start) = self.head(e.label.as_ref(), e.for_token.span());
        let pattern = self.pattern(&e.pat);
        let range = self.boxed(&e.expr);
        let body = self.block(&e.body);
        Expr { span: start.to(body.span), kind: ExprKind::For(label, pattern, range, body) }
    }

    fn block_expr(&mut self, e: &syn::ExprBlock) -> Expr {
        let label = e.label.as_ref().map(|l| self.label(&l.name));
        let body = self.block(&e.block);
        let start = label.as_ref().map_or(body.span, |l| l.span);
        Expr { span: start.to(body.span), kind: ExprKind::Block(label, body) }
    }

    /// The label and the keyword of a loop.
    fn head(&mut self, label: Option<&syn::Label>, keyword: proc_macro2::Span) -> (Option<Ident>, Span) {
        let label = label.map(|l| self.label(&l.name));
        let keyword = self.host.token(keyword);
        let start = label.as_ref().map_or(keyword, |l| l.span);
        (label, start.to(keyword))
    }

    fn break_(&mut self, e: &syn::ExprBreak) -> Expr {
        if let Some(value) = &e.expr {
            self.refuse(value, "`break` with a value", "assign to a register in front of the `break`");
        }
        let (label, span) = self.jump(e.break_token.span(), e.label.as_ref());
        Expr { kind: ExprKind::Break(label), span }
    }

    fn continue_(&mut self, e: &syn::ExprContinue) -> Expr {
        let (label, span) = self.jump(e.continue_token.span(), e.label.as_ref());
        Expr { kind: ExprKind::Continue(label), span }
    }

    fn jump(&mut self, keyword: proc_macro2::Span, label: Option<&syn::Lifetime>) -> (Option<Ident>, Span) {
        let start = self.host.token(keyword);
        let label = label.map(|l| self.label(l));
        let end = label.as_ref().map_or(start, |l| l.span);
        (label, start.to(end))
    }

    fn return_(&mut self, e: &syn::ExprReturn) -> Expr {
        let start = self.host.token(e.return_token.span());
        let value = e.expr.as_ref().map(|e| self.boxed(e));
        let end = value.as_ref().map_or(start, |v| v.span);
        Expr { kind: ExprKind::Return(value), span: start.to(end) }
    }
}

/// The operator, and how it makes an expression: `+` a value, `+=` an assignment.
fn operator(op: &syn::BinOp) -> Option<(BinaryOp, MakeBinary)> {
    use syn::BinOp as B;
    let (value, assign): (MakeBinary, MakeBinary) = (ExprKind::Binary, ExprKind::AssignOp);
    Some(match op {
        B::Add(_) => (BinaryOp::Add, value),
        B::Sub(_) => (BinaryOp::Sub, value),
        B::Mul(_) => (BinaryOp::Mul, value),
        B::Div(_) => (BinaryOp::Div, value),
        B::Rem(_) => (BinaryOp::Rem, value),
        B::BitAnd(_) => (BinaryOp::And, value),
        B::BitOr(_) => (BinaryOp::Or, value),
        B::BitXor(_) => (BinaryOp::Xor, value),
        B::Shl(_) => (BinaryOp::Shl, value),
        B::Shr(_) => (BinaryOp::Shr, value),
        B::Eq(_) => (BinaryOp::Eq, value),
        B::Ne(_) => (BinaryOp::Ne, value),
        B::Lt(_) => (BinaryOp::Lt, value),
        B::Le(_) => (BinaryOp::Le, value),
        B::Gt(_) => (BinaryOp::Gt, value),
        B::Ge(_) => (BinaryOp::Ge, value),
        B::And(_) => (BinaryOp::LogicalAnd, value),
        B::Or(_) => (BinaryOp::LogicalOr, value),
        B::AddAssign(_) => (BinaryOp::Add, assign),
        B::SubAssign(_) => (BinaryOp::Sub, assign),
        B::MulAssign(_) => (BinaryOp::Mul, assign),
        B::DivAssign(_) => (BinaryOp::Div, assign),
        B::RemAssign(_) => (BinaryOp::Rem, assign),
        B::BitAndAssign(_) => (BinaryOp::And, assign),
        B::BitOrAssign(_) => (BinaryOp::Or, assign),
        B::BitXorAssign(_) => (BinaryOp::Xor, assign),
        B::ShlAssign(_) => (BinaryOp::Shl, assign),
        B::ShrAssign(_) => (BinaryOp::Shr, assign),
        _ => return None,
    })
}

type MakeBinary = fn(BinaryOp, Span, Box<Expr>, Box<Expr>) -> ExprKind;
