//! The solver of the prover beside z3, on random questions.

use super::is_thorough;
use ptx_prove::solver::{Answer, Conjunction, Linear, Problem, solve};
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

/// Answers one question a line, of statements of SMT-LIB.
const Z3: &str = "
import sys, z3
for line in sys.stdin:
    solver = z3.Solver()
    solver.set('timeout', 2000)
    solver.from_string(line)
    print(solver.check(), flush=True)
";

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> i128 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        i128::from((self.0 >> 11) % limit)
    }
}

/// A sum of a few variables.
fn linear(random: &mut Random, variables: usize) -> Linear {
    let mut sum = Linear::constant(random.below(41) - 20);
    for _ in 0..1 + random.below(3) {
        let variable = random.below(variables as u64) as usize;
        sum = sum.combine(1, &Linear::variable(variable), random.below(11) - 5).unwrap();
    }
    sum
}

/// Four or five numbers, some of their products, and facts and clauses about all of them. The numbers are bounded, or not negative.
fn problem(random: &mut Random) -> Problem {
    let numbers = 4 + random.below(2) as usize;
    let mut problem = Problem { variables: numbers, ..Problem::default() };
    let is_bounded = random.below(3) > 0;
    for variable in 0..numbers {
        let least = if is_bounded { random.below(12) - 8 } else { random.below(2) };
        problem.atleast.push(Linear { terms: vec![(variable, 1)], constant: -least });
        if is_bounded {
            problem.atleast.push(Linear { terms: vec![(variable, -1)], constant: least + 1 + random.below(12) });
        }
    }
    for _ in 0..random.below(4) {
        let (a, b) = (random.below(numbers as u64) as usize, random.below(problem.variables as u64) as usize);
        problem.products.push((problem.variables, a, b));
        problem.variables += 1;
    }
    let variables = problem.variables;
    for _ in 0..1 + random.below(4) {
        problem.atleast.push(linear(random, variables));
    }
    for _ in 0..random.below(2) {
        problem.equal.push(linear(random, variables));
    }
    // Equalities of two inequalities, whose greatest factors have a divisor.
    for _ in 0..random.below(3) {
        let sum = linear(random, variables).combine(2 + random.below(8), &linear(random, variables), 1).unwrap();
        problem.atleast.extend([-1, 1].map(|sign| sum.combine(sign, &Linear::default(), 1).unwrap()));
    }
    for _ in 0..random.below(3) {
        let part = |random: &mut Random| -> Conjunction {
            (0..1 + random.below(2)).map(|_| linear(random, variables)).collect()
        };
        problem.clauses.push((0..2 + random.below(2)).map(|_| part(random)).collect());
    }
    problem
}

fn holds(problem: &Problem, model: &[i128]) -> bool {
    let all = |part: &Conjunction| part.iter().all(|fact| fact.value(model).unwrap() >= 0);
    all(&problem.atleast)
        && problem.equal.iter().all(|fact| fact.value(model) == Some(0))
        && problem.clauses.iter().all(|clause| clause.iter().any(all))
        && problem.products.iter().all(|(p, a, b)| model[*p] == model[*a] * model[*b])
}

/// The question in SMT-LIB, as one line.
fn written(problem: &Problem) -> String {
    let number = |value: i128| if value < 0 { format!("(- {})", -value) } else { value.to_string() };
    let sum = |form: &Linear| {
        let terms: String = form.terms.iter().map(|(v, c)| format!(" (* {} x{v})", number(*c))).collect();
        format!("(+ 0 {}{terms})", number(form.constant))
    };
    let all = |part: &Conjunction| {
        let facts: String = part.iter().map(|fact| format!(" (>= {} 0)", sum(fact))).collect();
        format!("(and true{facts})")
    };
    let mut text = String::new();
    for variable in 0..problem.variables {
        let _ = write!(text, "(declare-const x{variable} Int)");
    }
    let _ = write!(text, "(assert {})", all(&problem.atleast));
    for fact in &problem.equal {
        let _ = write!(text, "(assert (= {} 0))", sum(fact));
    }
    for clause in &problem.clauses {
        let parts: Vec<String> = clause.iter().map(all).collect();
        let _ = write!(text, "(assert (or {}))", parts.join(" "));
    }
    for (p, a, b) in &problem.products {
        let _ = write!(text, "(assert (= x{p} (* x{a} x{b})))");
    }
    text
}

/// `8 a - 8 b + x - y = 0` with `0 <= x < y <= most`.
fn turns(most: i128) -> Problem {
    let sum = |terms: &[(usize, i128)], constant: i128| Linear { terms: terms.to_vec(), constant };
    let equal = sum(&[(0, 8), (1, -8), (2, 1), (3, -1)], 0);
    let opposite = equal.combine(-1, &Linear::default(), 1).unwrap();
    let order = [sum(&[(2, 1)], 0), sum(&[(2, -1), (3, 1)], -1), sum(&[(3, -1)], most)];
    Problem { variables: 4, atleast: [equal, opposite].into_iter().chain(order).collect(), ..Problem::default() }
}

/// Numbers below 8 that differ by multiples of 8 are equal; and 0 and 8 are not.
#[test]
fn multiples_are_compared_by_remainders() {
    assert_eq!(solve(&turns(7), &mut 1_000), Answer::Unsat);
    assert!(matches!(solve(&turns(8), &mut 100_000), Answer::Sat(model) if holds(&turns(8), &model)));
}

/// Models satisfy their questions, and z3 has none for a question without one. With `PTX_THOROUGH=1` there are 20,000 questions.
#[test]
#[ignore = "needs z3: pip install z3-solver, then cargo test -p ptx-cli --test commands z3 -- --include-ignored"]
fn z3_agrees() {
    let count = if is_thorough() { 20_000 } else { 1_000 };
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut questions, mut answers) = (Vec::new(), Vec::new());
    let mut lengths = [0; 3];
    for _ in 0..count {
        let problem = problem(&mut random);
        let answer = solve(&problem, &mut 200_000);
        match &answer {
            Answer::Sat(model) => {
                assert!(holds(&problem, model), "{problem:?} {model:?}");
                lengths[0] += 1;
            }
            Answer::Unsat => lengths[1] += 1,
            Answer::Unknown => lengths[2] += 1,
        }
        questions.push(written(&problem));
        answers.push(answer);
    }
    let mut z3 = Command::new("python3")
        .args(["-c", Z3])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 with z3");
    let mut input = z3.stdin.take().unwrap();
    let lines = questions.join("\n") + "\n";
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let output = z3.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().count(), questions.len());
    for ((said, answer), question) in text.lines().zip(&answers).zip(&questions) {
        assert!(said != "sat" || *answer != Answer::Unsat, "z3 has a model: {question}");
        assert!(said != "unsat" || !matches!(answer, Answer::Sat(_)), "z3 has none: {question}");
    }
    println!("{count} questions: {} with a model, {} without, {} open", lengths[0], lengths[1], lengths[2]);
}
