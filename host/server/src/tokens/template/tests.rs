use super::*;

const LIMITS: TemplateLimits = TemplateLimits { fuel: 200_000, text_bytes: 100_000 };

fn template(source: &str) -> Template {
    let tokens = vec![("bos_token".to_owned(), "<s>".to_owned())];
    Template::new(source, tokens, LIMITS).expect("it is one")
}

fn message(role: &str, content: Value) -> Value {
    Value::from_pairs([("role", Value::from(role)), ("content", content)])
}

fn rendering() -> Rendering {
    Rendering {
        messages: vec![message("user", Value::from("Hello"))],
        tools: None,
        documents: None,
        add_generation_prompt: true,
        continue_final_message: false,
        variables: Vec::new(),
        now: WallTime::default(),
    }
}

fn render(source: &str) -> Result<String, TemplateError> {
    template(source).render(rendering())
}

#[test]
fn what_is_no_template_is_refused_with_its_line() {
    for source in [
        "\n{% for m in messages %}",
        "\n{{ messages[ }}",
        "\n{% endif %}",
        "\n{% include 'secrets' %}",
        "\n{% unknown %}",
        "\n{% endgeneration %}",
    ] {
        match Template::new(source, Vec::new(), LIMITS) {
            Err(TemplateError::Syntax(words)) => assert!(words.contains("(line 2)"), "{words}"),
            other => panic!("{source:?}: {other:?}"),
        }
    }
    let deep = "{{ ".to_owned() + &"(".repeat(10_000);
    assert!(Template::new(&deep, Vec::new(), LIMITS).is_err());
}

#[test]
fn what_fails_on_the_way_says_why() {
    for source in [
        "{{ messages[0].nothing.more }}",
        "{{ nothing.more }}",
        "{{ messages | no_such_filter }}",
        "{{ no_such_function() }}",
        "{{ 'a' + 1 }}",
        "{{ messages[0].content.no_such_method() }}",
        "{{ strftime_now('%Q') }}",
        "{{ missing | tojson }}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    ] {
        let failed = match Template::new(source, Vec::new(), LIMITS) {
            Ok(template) => template.render(rendering()),
            Err(error) => Err(error),
        };
        let failed = failed.expect_err(source).to_string();
        assert!(failed.len() > 40, "{failed}");
    }
    assert!(matches!(
        render("{{ raise_exception('Only users, please: ' ~ messages[0].role) }}"),
        Err(TemplateError::Refused(words)) if words == "Only users, please: user"
    ));
    let in_macro = "{% macro m() %}{{ raise_exception('no') }}{% endmacro %}{{ m() }}";
    assert!(matches!(render(in_macro), Err(TemplateError::Refused(_))));
    assert_eq!(render("[{{ nothing }}{{ messages[0].nothing }}]").expect("it is empty"), "[]");
}

#[test]
fn what_would_never_end_or_fill_the_memory_is_stopped() {
    let many = "{% for i in range(99999) %}";
    for source in [
        format!("{many}{many}{many}{{% endfor %}}{{% endfor %}}{{% endfor %}}"),
        "{% set ns = namespace(x='x') %}{% for i in range(90) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}"
            .to_owned(),
        "{% set ns = namespace(x='x') %}{% for i in range(90) %}{% set ns.x = ns.x + ns.x %}{% endfor %}"
            .to_owned(),
        "{{ ('x' * 50000) * 50000 }}".to_owned(),
        "{{ [('x' * 9999)] * 99999 }}".to_owned(),
        "{% for i in range(99999) %}{{ 'x' * 1000 }}{% endfor %}".to_owned(),
        "{% set x %}{% for i in range(99999) %}{{ 'x' * 1000 }}{% endfor %}{% endset %}".to_owned(),
        "{{ ('x\\n' * 50000) | indent(1000) }}".to_owned(),
        "{{ ('x' * 50000).replace('x', 'y' * 50000) }}".to_owned(),
    ] {
        match render(&source) {
            Err(
                TemplateError::TooMuch { .. }
                | TemplateError::TooLong { .. }
                | TemplateError::Failed(_),
            ) => {}
            other => panic!("{source}: {:?}", other.map(|text| text.len())),
        }
    }
    assert!(matches!(
        render("{% for i in range(9000) %}{{ 'x' * 100 }}{% endfor %}"),
        Err(TemplateError::TooLong { most: 100_000 })
    ));
}

#[test]
fn special_tokens_and_variables_are_there_and_the_requests_own_win() {
    let source = "{{ bos_token }}{{ date }}{{ tools is none }}{{ documents is none }}";
    let mut with = rendering();
    with.variables = vec![("date".to_owned(), Value::from("today"))];
    assert_eq!(template(source).render(with).expect("it is rendered"), "<s>todayTrueTrue");
    let mut with = rendering();
    with.variables = vec![("bos_token".to_owned(), Value::from("<other>"))];
    assert_eq!(template(source).render(with).expect("it is rendered"), "<other>TrueTrue");
    let mut with = rendering();
    with.now = WallTime { unix_seconds: 1_741_507_626, utc_offset: -9 * 3600 };
    let date = template("{{ strftime_now('%d %b %Y %H') }}").render(with);
    assert_eq!(date.expect("it is rendered"), "08 Mar 2025 23");
}

#[test]
fn generation_marks_change_nothing_and_bound_variables() {
    let plain = "a\n{% if true %}\n{{ 'b' }}\n{% endif %}\nc {{ '{% generation' }} {%- if true -%} d {%- endif +%}\n";
    let marked = "a\n{% generation %}\n{{ 'b' }}\n{% endgeneration %}\nc {{ '{% generation' }} {%- generation -%} d {%- endgeneration +%}\n";
    assert_eq!(render(marked).expect("it is rendered"), render(plain).expect("it is rendered"));
    let scoped = "{% generation %}{% set x = 1 %}{{ x }}{% endgeneration %}[{{ x }}]";
    assert_eq!(render(scoped).expect("it is rendered"), "1[]");
}

#[test]
fn a_continued_message_ends_where_it_ends() {
    let source =
        "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}</{{ m.role }}>{% endfor %}";
    let parts = "{% for m in messages %}<{{ m.role }}>{% for c in m.content %}{{ c.text }}{% endfor %}</>{% endfor %}";
    let part = |text: &str| Value::from_pairs([("type", "text"), ("text", text)]);
    let list = Value::from(vec![part("one "), part("two "), Value::from_pairs([("type", "x")])]);
    for (source, content, expected) in [
        (source, Value::from("Paris, of "), Some("<user>Hello</user><assistant>Paris, of")),
        (
            "{% for m in messages %}{{ m.content }}.{% endfor %}",
            Value::from("of "),
            Some("Hello.of "),
        ),
        (parts, list, Some("<user></><assistant>one two ")),
        (source, Value::from(()), None),
        (parts, Value::from(Vec::<Value>::new()), None),
        ("{{ messages[0].content }}", Value::from("left out"), None),
    ] {
        let mut with = rendering();
        with.continue_final_message = true;
        with.messages.push(message("assistant", content));
        let text = template(source).render(with);
        match (&text, expected) {
            (Ok(text), Some(expected)) => assert_eq!(text, expected),
            (Err(TemplateError::NotContinuable(_)), None) => {}
            other => panic!("{source}: {other:?}"),
        }
    }
}

#[test]
fn the_form_of_content_is_found_as_the_engine_finds_it() {
    use ContentFormat::{Parts, Text};
    for (source, expected) in [
        ("{% for m in messages %}{{ m.content }}{% endfor %}", Text),
        ("{% for m in messages %}{% for c in m.content %}{{ c }}{% endfor %}{% endfor %}", Parts),
        (
            "{% for m in messages %}{% for c in m['content'] %}{{ c }}{% endfor %}{% endfor %}",
            Parts,
        ),
        (
            "{% for m in messages[1:] %}{% for c in m.content | list %}{% endfor %}{% endfor %}",
            Parts,
        ),
        (
            "{% set rest = messages[1:] %}{% for m in rest %}{% for c in m.content %}{% endfor %}{% endfor %}",
            Parts,
        ),
        ("{% for m in others %}{% for c in m.content %}{% endfor %}{% endfor %}", Text),
        (
            "{% for m in messages %}{% set content = m.content %}{% for c in content %}{% endfor %}{% endfor %}",
            Parts,
        ),
        (
            "{% for m in messages %}{% set words = m.content %}{% for c in words %}{% endfor %}{% endfor %}",
            Text,
        ),
        (
            "{% macro say(it) %}{% for c in it %}{% endfor %}{% endmacro %}{% for m in messages %}{{ say(m.content) }}{% endfor %}",
            Parts,
        ),
        (
            "{% macro say(it) %}{% for c in it %}{% endfor %}{% endmacro %}{% for m in messages %}{{ say(it=m.content) }}{% endfor %}",
            Parts,
        ),
        (
            "{% macro say(it) %}{% for c in it %}{% endfor %}{% endmacro %}{% for m in messages %}{{ say(m.role) }}{% endfor %}",
            Text,
        ),
        (
            "{% macro say(content) %}{% for c in content %}{% endfor %}{% endmacro %}{{ say('x') }}",
            Text,
        ),
        ("{% for content in messages %}{% for c in content %}{% endfor %}{% endfor %}", Parts),
        // Where the engine's search fails, it takes content as text.
        (
            "{% set ns = namespace() %}{% set ns.m = messages %}{% for m in messages %}{% for c in m.content %}{% endfor %}{% endfor %}",
            Text,
        ),
        (
            "{% for a, b in messages %}{% endfor %}{% for m in messages %}{% for c in m.content %}{% endfor %}{% endfor %}",
            Text,
        ),
    ] {
        assert_eq!(template(source).format(), expected, "{source}");
    }
}

#[test]
fn expressions_without_end_are_refused_before_they_are_compiled() {
    let many = |n: usize, text: &str| text.repeat(n);
    for n in [3_000, 16_000, 100_000] {
        for source in [
            format!("{{{{ 1{} }}}}", many(n, "+1")),
            format!("{{{{ messages{} }}}}", many(n, ".a")),
            format!("{{{{ messages{} }}}}", many(n, "|list")),
            format!("{{{{ {}true }}}}", many(n, "not ")),
            format!("{{{{ {}1 }}}}", many(n, "-")),
            format!("{{{{ 1{} }}}}", many(n, "~1")),
            format!("{{{{ 1{} }}}}", many(n, " if x else 1")),
            format!("{{{{ x{} }}}}", many(n, "()")),
            format!("{{{{ x{} }}}}", many(n, "[0]")),
            format!("{{{{ 1{} }}}}", many(n, " and 1")),
            format!("{{{{ 1{} }}}}", many(n, " == 1")),
            format!("{{{{ {}1{} }}}}", many(n, "["), many(n, "]")),
            format!("{{% if x %}}{}{{% endif %}}", many(n, "{% elif x %}")),
            many(n, "{% if x %}"),
        ] {
            // The shortest may be taken; what matters is that all of them have an end.
            let read = Template::new(&source, Vec::new(), LIMITS);
            assert!(read.is_err() || n == 3_000, "{}", &source[..20]);
            drop(read.map(|template| template.render(rendering())));
        }
    }
    let long = " ".repeat((1 << 20) + 1);
    assert!(matches!(Template::new(&long, Vec::new(), LIMITS), Err(TemplateError::TooDeep(_))));
}

#[test]
fn values_without_end_are_refused_when_they_are_set() {
    let ns = "{% set ns = namespace(s=[1], t='') %}";
    let often = |set: &str| format!("{ns}{{% for i in range(9999) %}}{set}{{% endfor %}}");
    for source in [
        format!("{ns}{{% set ns.a = ns %}}{{{{ ns }}}}"),
        format!("{ns}{{% set ns.a = [{{'b': ns}}] %}}{{{{ ns | tojson }}}}"),
        often("{% set ns.s = [ns.s] %}"),
        often("{%- set ns.s = {'a': ns.s} -%}"),
        often("{% set ns.s = [[[ns.s]]] if true else 1 %}"),
        often("{% set ns.s = [ns.s, ns.s] %}"),
        often("{% set ns.s = ns.s + ns.s %}"),
        often("{% set ns.s = ns.s | batch(1) %}"),
        format!("{ns}{{% set x = 1 %}}{}", "{% set x = [x] %}".repeat(9_999)),
        format!("{ns}{}", "{% set ns.s = [ns.s] %}".repeat(9_999)),
    ] {
        assert!(render(&source).is_err(), "{}", &source[..90.min(source.len())]);
    }
    for (source, expected) in [
        ("{% set ns.s = ns.s + [2] %}{% set ns.t = ns.t ~ 'a' %}{{ ns.s }}{{ ns.t }}", "[1, 2]a"),
        ("{% set x, y = 1, 2 -%} {{ x }}{{ y }}", "12"),
        ("{%- set ns.t = 'a' if false else 'b'|upper -%} {{ ns.t }}", "B"),
        ("{% set ns.s = messages[0:] %}{{ ns.s[0].content }}", "Hello"),
        ("{% set x = namespace(y=1) %}{% set x.y = {'a': 1}.a + 1 %}{{ x.y }}", "2"),
        ("{% set x %}a = b{% endset %}{{ x }}", "a = b"),
        ("{% set ns.t = range(3) %}{{ ns.t | list }}{{ ns.t | length }}", "[0, 1, 2]3"),
    ] {
        assert_eq!(render(&format!("{ns}{source}")).expect(source), expected, "{source}");
    }
}

#[test]
fn what_filters_make_is_measured_before_it_is_made() {
    let long = "{% set x = 'x' * 90000 %}";
    for source in [
        "{{ [[[1]]] | tojson(indent=x) }}",
        "{{ ('a\n' * 9000) | indent(x) }}",
        "{{ x | replace('x', x) }}",
        "{{ x.replace('x', x) }}",
        "{{ x.replace('', x) }}",
        "{{ '{:>1000000000}'.format(1) }}",
        "{{ '{:.1000000000f}'.format(1.0) }}",
        "{{ '{:>{}}'.format(1, 1000000000) }}",
        "{{ ('{0}' * 9000).format(x) }}",
        "{{ '%1000000000d' | format(1) }}",
        "{{ '%*d' | format(1000000000, 1) }}",
        "{{ ('%s' * 2) | format(x, x) }}",
        "{{ strftime_now('%Y' * 9000) }}",
        "{{ range(90000) | join(x) }}",
        "{{ x.join(range(90000)) }}",
        "{{ ([x] * 9000) | join }}",
        "{{ ([x] * 9000) | string | length }}",
        "{{ ([x] * 9000) | tojson | length }}",
    ] {
        assert!(render(&format!("{long}{source}")).is_err(), "{source}");
    }
    for (source, expected) in [
        ("{{ ['a', 'b'] | join(', ') }}{{ [1, 2] | join }}", "a, b12"),
        ("{{ [{'a': 1}, {'a': 2}] | join('-', attribute='a') }}", "1-2"),
        ("{{ '%s: %05.1f' | format('a', 2) }}{{ '{:>3}'.format(7) }}", "a: 002.0  7"),
        ("{{ 'aaa' | replace('a', 'bb', 2) }}{{ 121 | replace('1', 'x') }}", "bbbbax2x"),
        ("{{ 7 | string ~ 'a' }}{{ [1] | string }}{{ ','.join(['a', 'b']) }}", "7a[1]a,b"),
    ] {
        assert_eq!(render(source).expect(source), expected, "{source}");
    }
}
