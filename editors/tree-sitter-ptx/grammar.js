/**
 * @file PTX, as ptxas takes it. Names of opcodes and modifiers are not listed: a new instruction needs no new grammar. The names of the nodes are those that
 * the queries of Helix use.
 * @license MIT OR Apache-2.0
 */

/// <reference types="tree-sitter-cli/dsl" />
// @ts-check

const commas = (rule) => seq(rule, repeat(seq(",", rule)));

/** What stands between the name of a function and its body. */
const signature = ($) => [optional(field("parameters", $.parameters)), repeat(choice($.function_directive, $.pragma_directive))];

/** From the weakest to the strongest. */
const BINARY = ["||", "&&", "|", "^", "&", ["==", "!="], ["<", "<=", ">", ">="], ["<<", ">>"], ["+", "-"], ["*", "/", "%"]];
const UNARY = BINARY.length + 1;

module.exports = grammar({
  name: "ptx",

  // Some files end in bytes that are 0.
  extras: ($) => [/[\s\x00]/, $.comment, $.line_marker],

  rules: {
    source_file: ($) => repeat($._item),

    _item: ($) =>
      choice(
        $.version_directive,
        $.target_directive,
        $.address_size_directive,
        $.file_directive,
        $.location_directive,
        $.section_directive,
        $.dwarf_directive,
        $.pragma_directive,
        $.entry_declaration,
        $.function_declaration,
        $.variable_declaration,
        $.prototype_directive,
        $.directive,
        $.label,
        $.instruction,
        $.block,
        ";",
      ),

    // The header, and what debuggers read.

    version_directive: ($) => seq(".version", choice($.float_literal, $.number)),
    target_directive: ($) => seq(".target", commas($.identifier)),
    address_size_directive: ($) => seq(".address_size", $.number),
    file_directive: ($) => prec.right(seq(".file", $.number, repeat1($.string), repeat(seq(",", $.number)))),
    location_directive: ($) =>
      seq(".loc", $.number, $.number, $.number, repeat(seq(",", choice(seq("function_name", $._sum), seq("inlined_at", $.number, $.number, $.number))))),
    _sum: ($) => seq($.identifier, optional(seq("+", $.number))),
    section_directive: ($) => seq(".section", choice($.modifier, $.identifier), "{", repeat(choice($.label, $.section_data)), "}"),
    section_data: ($) => seq($.data_type, commas($._datum)),
    _datum: ($) => seq(optional("-"), choice($.number, $.identifier, $.modifier), repeat(seq(choice("+", "-"), choice($.number, $.identifier)))),
    dwarf_directive: (_) => token(/@@DWARF[^\n]*/),
    pragma_directive: ($) => seq(".pragma", commas($.string), ";"),

    // Functions.

    visibility_directive: (_) => choice(".extern", ".visible", ".weak", ".common"),
    entry_declaration: ($) => seq(repeat($.visibility_directive), ".entry", repeat($.attribute), field("name", $._symbol), ...signature($), $._body),
    function_declaration: ($) =>
      seq(
        repeat($.visibility_directive),
        ".func",
        repeat($.attribute),
        optional(field("returns", $.parameters)),
        field("name", $._symbol),
        ...signature($),
        $._body,
      ),
    _body: ($) => choice(field("body", alias($.block, $.func_body)), ";"),
    parameters: ($) => seq("(", optional(commas($.parameter)), ")"),
    parameter: ($) => seq(repeat1($._declarator_modifier), $.declarator),
    function_directive: ($) => seq($.modifier, optional(commas(choice($.number, $.identifier)))),
    prototype_directive: ($) =>
      seq(".callprototype", optional($.parameters), $._symbol, optional($.parameters), repeat($.function_directive), ";"),
    block: ($) => seq("{", repeat($._item), "}"),

    // Variables.

    variable_declaration: ($) =>
      seq(repeat($.visibility_directive), choice($.state_space, $.attribute), repeat($._declarator_modifier), commas($.declarator), ";"),
    _declarator_modifier: ($) => choice($.state_space, $.data_type, $.alignment, $.attribute, $.modifier),
    alignment: ($) => seq(".align", $.number),
    attribute: ($) => seq(".attribute", "(", commas(seq($.modifier, optional(seq("(", commas($.number), ")")))), ")"),
    state_space: (_) => choice(".reg", ".sreg", ".global", ".const", ".param", ".local", ".shared", ".tex"),
    declarator: ($) =>
      seq(field("name", $._symbol), optional(seq("<", $.number, ">")), repeat($.dimension), optional(seq("=", field("value", $._initial)))),
    dimension: ($) => seq("[", optional($._expression), "]"),
    _initial: ($) => choice($._expression, $.initializer),
    initializer: ($) => seq("{", optional(seq(commas($._initial), optional(","))), "}"),

    // Statements.

    label: ($) => seq($._symbol_name, ":"),
    directive: ($) => seq($.modifier, optional(commas($._operand)), ";"),
    instruction: ($) =>
      seq(
        optional($.predicate),
        field("opcode", $.opcode),
        repeat(choice($.data_type, $.state_space, $.modifier)),
        optional(commas($._operand)),
        ";",
      ),
    predicate: ($) => seq("@", optional("!"), choice($._symbol, $.element)),
    opcode: ($) => $._name,

    _operand: ($) => choice($._expression, $.vector, $.address, $.pair),
    pair: ($) => prec(UNARY, seq(choice($._symbol, $.vector), "|", $._symbol)),
    vector: ($) => seq("{", commas($._expression), "}"),
    arguments: ($) => seq("(", optional(commas($._operand)), ")"),
    address: ($) => seq("[", commas(choice($._expression, $.vector)), "]"),

    // Expressions.

    _expression: ($) =>
      choice($._symbol, $.component, $.element, $.number, $.float_literal, $.string, $.arguments, $.cast, $.call, $.unary, $.binary, $.conditional),
    component: ($) => seq($._symbol, repeat1(choice($.modifier, $.data_type))),
    // Also the registers of an array in `ptx!`: `sum[i][0]`, `words[..]`, `words[4..8]`.
    element: ($) => prec.left(UNARY, seq(choice($._symbol, $.component), repeat1(seq("[", commas(choice($._expression, $.vector, $.range)), "]")))),
    range: ($) => choice(seq($._expression, "..", optional($._expression)), seq("..", optional($._expression))),
    cast: ($) => prec(UNARY, seq("(", $.data_type, ")", $._expression)),
    call: ($) => prec(UNARY, seq(choice($.identifier, $.number), $.arguments)),
    unary: ($) => prec(UNARY, seq(choice("-", "+", "!", "~"), $._expression)),
    binary: ($) =>
      choice(
        ...BINARY.map((operators, level) =>
          prec.left(level + 1, seq($._expression, field("operator", Array.isArray(operators) ? choice(...operators) : operators), $._expression)),
        ),
      ),
    conditional: ($) => prec.right(0, seq($._expression, "?", $._expression, ":", $._expression)),

    // Tokens.

    _symbol: ($) => choice($.identifier, $.register),
    _symbol_name: ($) => choice($._name, $._percent_name),
    identifier: ($) => $._name,
    register: ($) => $._percent_name,
    _name: (_) => /[A-Za-z_$][A-Za-z0-9_$]*/,
    _percent_name: (_) => /%[A-Za-z0-9_$]+/,
    // `{T}` stands for a parameter of an instance in `ptx!`.
    modifier: (_) => /\.([A-Za-z0-9_$]|\{[A-Za-z0-9_]+\})+(::[A-Za-z0-9_]+)*/,
    data_type: (_) =>
      choice(
        ...[".pred", ".texref", ".samplerref", ".surfref", ".bf16", ".bf16x2", ".f16", ".f16x2", ".f32", ".f32x2", ".f64", ".tf32", ".b128"],
        ...["u", "s", "b"].flatMap((kind) => [8, 16, 32, 64].map((bits) => `.${kind}${bits}`)),
      ),
    number: (_) => /0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|[0-9]+U?/,
    float_literal: (_) => token(choice(/0[fF][0-9a-fA-F]{8}/, /0[dD][0-9a-fA-F]{16}/, /[0-9]+\.[0-9]+([eE][+-]?[0-9]+)?/, /[0-9]+[eE][+-]?[0-9]+/)),
    string: (_) => token(seq('"', /[^"\n]*/, '"')),
    line_marker: (_) => token(/#[^\n]*/),
    comment: (_) => token(choice(seq("//", /[^\n]*/), seq("/*", /[^*]*\*+([^/*][^*]*\*+)*/, "/"))),
  },
});
