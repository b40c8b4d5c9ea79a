//! A walkthrough as JSON.

use serde_json::{Map, Value, json};

use crate::{Kind, Matrix, Section, Step, Walkthrough};

impl Walkthrough {
    /// The walkthrough as a JSON object.
    ///
    /// - `example`, `title`, `tokens`, and `settings` with `temperature`, `causal` and `without`.
    /// - Each step under its key, as a list of rows. A key with a dot nests: `head_1.weights` is `weights` of the first of
    ///   `heads`; `dot.x` is `x` of `dot`, where a single row is a list and a single number a number.
    /// - `max_error`: for each step's key, with its dot, the largest distance from the reference in double precision;
    ///   `max_ulp`: the same in units of the last place (see [`ulps`](crate::ulps)).
    /// - `checks`; `corrections`, `labels` (of the rows and columns of tables) and `broken`, where there are some.
    ///
    /// Numbers are the shortest decimals that read back as the same `f32`. JSON has no infinities: a score of −∞, hidden by
    /// the mask, is `null`, and so is a temperature of ∞.
    ///
    /// ```
    /// use regard_walkthrough::{Example, Settings, Walkthrough};
    /// let json = Walkthrough::run(Example::ILoveRobotics, &Settings::default())?.to_json();
    /// assert_eq!(json["raw_scores"][1], serde_json::json!([4.0, 4.0, 4.0]));
    /// assert_eq!(json["max_error"]["raw_scores"], 0.0);
    /// # Ok::<(), regard_walkthrough::Error>(())
    /// ```
    pub fn to_json(&self) -> Value {
        let mut json = Map::new();
        json.insert("example".to_owned(), self.example.name().into());
        json.insert("title".to_owned(), self.example.title().into());
        json.insert("tokens".to_owned(), self.tokens.clone().into());
        json.insert(
            "settings".to_owned(),
            json!({
                "temperature": number(self.settings.temperature.get()),
                "causal": self.settings.causal,
                "without": self.settings.without.map(|w| w.name()),
            }),
        );
        for step in &self.steps {
            insert(&mut json, step);
        }
        let max_error = self.steps.iter().map(|s| (s.key.to_string(), Value::from(s.max_error)));
        json.insert("max_error".to_owned(), max_error.collect());
        let max_ulp = self.steps.iter().map(|s| (s.key.to_string(), Value::from(s.max_ulp)));
        json.insert("max_ulp".to_owned(), max_ulp.collect());
        let check = |c: &crate::Check| json!({ "name": c.name, "value": c.value, "limit": c.limit, "holds": c.holds(), "meaning": c.meaning });
        json.insert("checks".to_owned(), self.checks.iter().map(check).collect());

        let corrections: Map<_, _> = self
            .steps
            .iter()
            .filter_map(|s| Some((s.key.to_string(), s.correction.clone()?.into())))
            .collect();
        if !corrections.is_empty() {
            json.insert("corrections".to_owned(), corrections.into());
        }
        let tables = self.steps.iter().filter(|s| s.kind == Kind::Table);
        let labels: Map<_, _> = tables
            .map(|s| (s.key.to_string(), json!({ "rows": s.row_labels, "columns": s.col_labels })))
            .collect();
        if !labels.is_empty() {
            json.insert("labels".to_owned(), labels.into());
        }
        if let Some(broken) = &self.broken {
            json.insert("broken".to_owned(), broken.as_str().into());
        }
        json.into()
    }
}

fn insert(json: &mut Map<String, Value>, step: &Step) {
    let name = step.key.quantity.name();
    if step.key.section == Section::Main {
        json.insert(name.to_owned(), rows(&step.matrix));
        return;
    }
    if let Some(head) = step.key.head() {
        let heads = json.entry("heads").or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(heads) = heads {
            heads.resize_with(heads.len().max(head), || json!({}));
            heads[head - 1][name] = rows(&step.matrix);
        }
        return;
    }
    let part = json.entry(step.key.section.to_string()).or_insert_with(|| json!({}));
    part[name] = match step.matrix.shape() {
        (1, 1) => number(step.matrix.get(0, 0)),
        (1, _) => list(step.matrix.row(0)),
        _ => rows(&step.matrix),
    };
}

fn rows(matrix: &Matrix) -> Value {
    (0..matrix.rows()).map(|i| list(matrix.row(i))).collect()
}

fn list(row: &[f32]) -> Value {
    row.iter().map(|x| number(*x)).collect()
}

/// Parses the shortest decimals: as an `f64`, 0.1 would be 0.10000000149011612.
fn number(x: f32) -> Value {
    x.to_string().parse::<f64>().map_or(Value::Null, Value::from)
}
