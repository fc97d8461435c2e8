use std::time::Instant;
use super::*;
use bytes::Bytes;
#[tokio::test]
async fn zz_bench() {
    let words = std::fs::read_to_string("/work/shared/SEMANTICS.md").expect("x");
    for turns in [1usize, 8] {
    let body_of = |n: usize, salt: usize, chars: usize| {
        let text: String = words.chars().skip(salt % 20000).take(chars / n).collect();
        let messages: Vec<_> = (0..n).map(|i| serde_json::json!({"role": if i % 2 == 0 {"user"} else {"assistant"}, "content": format!("{i} {text}")})).collect();
        Bytes::from(serde_json::json!({"model":"m","messages":messages,"temperature":0}).to_string())
    };
    let mut s = TokenSettings { tokenizer: Some("/tmp/tokens-py/real".into()), ..TokenSettings::default() };
    s.limits.inline_bytes = 1 << 30;
    let tokens = ModelTokens::load(s, Arc::new(TokenPool::new(2, 9))).expect("x");
    let mut cold = vec![]; let mut count = 0; let mut len = 0;
    for i in 0..60 { let b = body_of(turns, i * 317, 7000); len = b.len(); let t = Instant::now(); let (p, e) = tokens.tokens(Kind::Chat, &b, 0, None).await; assert!(e.is_none(), "{e:?}"); cold.push(t.elapsed()); count = p.count; }
    let b = body_of(turns, 100, 7000); let _ = tokens.tokens(Kind::Chat, &b, 0, None).await;
    let mut warm = vec![]; let mut hit = vec![];
    for _ in 0..500 { let t = Instant::now(); let _ = tokens.tokens(Kind::Chat, &b, 0, None).await; warm.push(t.elapsed()); }
    // a warm conversation, and one new turn
    let v: serde_json::Value = serde_json::from_slice(&b).expect("x");
    for i in 0..100 { let mut v = v.clone(); v["messages"].as_array_mut().expect("x").push(serde_json::json!({"role":"user","content":format!("And number {i}, what about the second of the questions? Please be brief.")})); let b = Bytes::from(v.to_string()); let t = Instant::now(); let _ = tokens.tokens(Kind::Chat, &b, 0, None).await; hit.push(t.elapsed()); }
    for v in [&mut cold, &mut warm, &mut hit] { v.sort(); }
    let t = Instant::now(); for _ in 0..200 { let _ = prompt::Prompt::read(Kind::Chat, &b); } let read = t.elapsed() / 200;
    let t = Instant::now(); for _ in 0..200 { let _ = tokens.text(&b, 0); } let text = t.elapsed() / 200;
    let ids = serde_json::json!({"prompt": (0..2000).map(|i| i * 31).collect::<Vec<u32>>()}).to_string(); let ib = Bytes::from(ids);
    let t = Instant::now(); for _ in 0..200 { let _ = tokens.tokens(Kind::Completion, &ib, 0, None).await; } let client = t.elapsed() / 200;
    let t = Instant::now(); for _ in 0..200 { let c = super::text::canonical(&b, 1 << 20); let _ = super::text::pseudo_tokens(&c, 4); } let chunk = t.elapsed() / 200;
    eprintln!("turns {turns} body {len} tokens {count}: cold p50 {:?} warm p50 {:?} p99 {:?} new turn p50 {:?}; read {read:?} read+render {text:?}; 2000 ids {client:?}; text mode {chunk:?} {:?}", cold[30], warm[250], warm[495], hit[50], tokens.cache());
    }
}
