//! How a template takes a message's content: as one text, or as a list of parts.
//!
//! vLLM finds it out from the template's syntax tree, and makes the content so. What a prompt's
//! tokens are hangs on that, so the same is done here, step by step: the content is a list if some
//! loop goes over the `content` of an item of `messages`, by that name, by one that was set to it,
//! or by a parameter that it is handed to.

use std::collections::BTreeSet;

use minijinja::machinery::ast::{CallArg, Expr, ForLoop, Macro, Stmt};
use minijinja::machinery::parse;
use minijinja::syntax::SyntaxConfig;

/// The form of a message's content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContentFormat {
    /// One text; parts are joined by line breaks.
    #[default]
    Text,
    /// A list of parts, each with a type; a text becomes a list of one.
    Parts,
}

impl ContentFormat {
    pub(super) fn of(source: &str, syntax: SyntaxConfig) -> Self {
        let tree = parse(source, "chat_template", syntax);
        match tree.ok().as_ref().and_then(loops_over_content) {
            Some(true) => Self::Parts,
            Some(false) | None => Self::Text,
        }
    }
}

/// The parts of a tree that matter.
#[derive(Default)]
struct Found<'t, 's> {
    sets: Vec<(&'t Expr<'s>, &'t Expr<'s>)>,
    /// With whether they stand in a macro, by its place among the macros (the innermost).
    loops: Vec<(&'t ForLoop<'s>, Option<usize>)>,
    macros: Vec<&'t Macro<'s>>,
    calls: Vec<(&'t Expr<'s>, &'t [CallArg<'s>])>,
}

/// None where vLLM's search fails, and it takes content as text.
fn loops_over_content(tree: &Stmt<'_>) -> Option<bool> {
    let mut found = Found::default();
    found.statement(tree, None);

    // Names for the messages, or for some of them.
    let mut names = vec!["messages"];
    let mut at = 0;
    while let Some(name) = names.get(at).copied() {
        for &(target, value) in &found.sets {
            if is_access(value, name, None) {
                let Expr::Var(target) = target else { return None };
                if !names.contains(&target.id) {
                    names.push(target.id);
                }
            }
        }
        at += 1;
    }

    // Names for one message.
    let mut messages = BTreeSet::new();
    for (each, _) in &found.loops {
        if names.iter().any(|name| is_access(&each.iter, name, None)) {
            let Expr::Var(target) = &each.target else { return None };
            messages.insert(target.id);
        }
    }
    let is_content =
        |value: &Expr<'_>| messages.iter().any(|name| is_access(value, name, Some("content")));

    // Macros' parameters that some call hands the content to.
    let parameters: Vec<BTreeSet<&str>> =
        found.macros.iter().map(|each| found.handed(each, &is_content)).collect();

    Some(found.loops.iter().any(|(each, home)| {
        if is_content(&each.iter) {
            return true;
        }
        let Expr::Var(over) = &each.iter else { return false };
        match home {
            Some(home) => parameters.get(*home).is_some_and(|names| names.contains(over.id)),
            None => over.id == "content",
        }
    }))
}

/// Whether an expression is the variable or some of its items; with a key, those of its field.
fn is_access(value: &Expr<'_>, name: &str, key: Option<&str>) -> bool {
    match value {
        Expr::Filter(filter) => {
            filter.expr.as_ref().is_some_and(|inner| is_access(inner, name, key))
        }
        Expr::Test(test) => is_access(&test.expr, name, key),
        Expr::Slice(slice) => is_access(&slice.expr, name, key),
        Expr::Var(var) => key.is_none() && var.id == name,
        Expr::GetAttr(get) => key == Some(get.name) && is_variable(&get.expr, name),
        Expr::GetItem(get) => {
            let is_key = matches!(&get.subscript_expr, Expr::Const(c) if c.value.as_str() == key);
            key.is_some() && is_key && is_variable(&get.expr, name)
        }
        _ => false,
    }
}

fn is_variable(value: &Expr<'_>, name: &str) -> bool {
    matches!(value, Expr::Var(var) if var.id == name)
}

impl<'t, 's> Found<'t, 's> {
    /// The parameters of a macro that get what `is_content` says.
    fn handed(&self, of: &Macro<'s>, is_content: &dyn Fn(&Expr<'_>) -> bool) -> BTreeSet<&'s str> {
        let parameters: Vec<&'s str> = of
            .args
            .iter()
            .filter_map(|arg| if let Expr::Var(var) = arg { Some(var.id) } else { None })
            .collect();
        let mut handed = BTreeSet::new();
        for (callee, args) in &self.calls {
            if !is_variable(callee, of.name) {
                continue;
            }
            let mut place = 0;
            for arg in *args {
                match arg {
                    CallArg::Pos(value) => {
                        let name = parameters.get(place).filter(|_| is_content(value));
                        handed.extend(name);
                        place += 1;
                    }
                    CallArg::Kwarg(name, value) => {
                        let name = parameters.iter().find(|parameter| *parameter == name);
                        handed.extend(name.filter(|_| is_content(value)));
                    }
                    CallArg::PosSplat(_) | CallArg::KwargSplat(_) => {}
                }
            }
        }
        handed
    }

    fn statements(&mut self, statements: &'t [Stmt<'s>], home: Option<usize>) {
        for statement in statements {
            self.statement(statement, home);
        }
    }

    fn statement(&mut self, statement: &'t Stmt<'s>, home: Option<usize>) {
        match statement {
            Stmt::Template(template) => self.statements(&template.children, home),
            Stmt::EmitExpr(emit) => self.expression(&emit.expr),
            Stmt::ForLoop(each) => {
                self.loops.push((each, home));
                self.expression(&each.iter);
                self.expressions(each.filter_expr.as_ref());
                self.statements(&each.body, home);
                self.statements(&each.else_body, home);
            }
            Stmt::IfCond(cond) => {
                self.expression(&cond.expr);
                self.statements(&cond.true_body, home);
                self.statements(&cond.false_body, home);
            }
            Stmt::WithBlock(with) => {
                self.expressions(with.assignments.iter().map(|(_, value)| value));
                self.statements(&with.body, home);
            }
            Stmt::Set(set) => {
                self.sets.push((&set.target, &set.expr));
                self.expression(&set.expr);
            }
            Stmt::SetBlock(set) => self.statements(&set.body, home),
            Stmt::AutoEscape(block) => self.statements(&block.body, home),
            Stmt::FilterBlock(block) => self.statements(&block.body, home),
            Stmt::Macro(each) => self.define(each),
            Stmt::CallBlock(block) => {
                self.calls.push((&block.call.expr, &block.call.args));
                self.arguments(&block.call.args);
                self.statements(&block.macro_decl.body, home);
            }
            Stmt::Do(each) => {
                self.calls.push((&each.call.expr, &each.call.args));
                self.arguments(&each.call.args);
            }
            _ => {}
        }
    }

    fn define(&mut self, each: &'t Macro<'s>) {
        self.macros.push(each);
        let home = Some(self.macros.len() - 1);
        self.expressions(&each.defaults);
        self.statements(&each.body, home);
    }

    fn expressions(&mut self, values: impl IntoIterator<Item = &'t Expr<'s>>) {
        for value in values {
            self.expression(value);
        }
    }

    fn arguments(&mut self, args: &'t [CallArg<'s>]) {
        self.expressions(args.iter().map(|arg| match arg {
            CallArg::Pos(value)
            | CallArg::Kwarg(_, value)
            | CallArg::PosSplat(value)
            | CallArg::KwargSplat(value) => value,
        }));
    }

    /// Calls may stand anywhere in an expression.
    fn expression(&mut self, value: &'t Expr<'s>) {
        match value {
            Expr::Var(_) | Expr::Const(_) => {}
            Expr::Slice(slice) => {
                self.expression(&slice.expr);
                let bounds = [&slice.start, &slice.stop, &slice.step];
                self.expressions(bounds.into_iter().flatten());
            }
            Expr::UnaryOp(op) => self.expression(&op.expr),
            Expr::BinOp(op) => self.expressions([&op.left, &op.right]),
            Expr::Compare(compare) => {
                self.expression(&compare.expr);
                self.expressions(compare.ops.iter().map(|op| &op.expr));
            }
            Expr::IfExpr(cond) => {
                self.expressions([&cond.test_expr, &cond.true_expr]);
                self.expressions(cond.false_expr.as_ref());
            }
            Expr::Filter(filter) => {
                self.expressions(filter.expr.as_ref());
                self.arguments(&filter.args);
            }
            Expr::Test(test) => {
                self.expression(&test.expr);
                self.arguments(&test.args);
            }
            Expr::GetAttr(get) => self.expression(&get.expr),
            Expr::GetItem(get) => self.expressions([&get.expr, &get.subscript_expr]),
            Expr::Call(call) => {
                self.calls.push((&call.expr, &call.args));
                self.expression(&call.expr);
                self.arguments(&call.args);
            }
            Expr::List(list) => self.expressions(&list.items),
            Expr::Tuple(tuple) => self.expressions(&tuple.items),
            Expr::Map(map) => {
                self.expressions(&map.keys);
                self.expressions(&map.values);
            }
        }
    }
}
