use core::sync::atomic::{AtomicUsize, Ordering};
use std::borrow::Cow;

use rayon::iter::{IntoParallelIterator as _, ParallelIterator as _};
use serde::{Deserialize, Serialize};

use super::measure::{Earlier, Row, Sums};
use super::pool::{Pool, factors};
use super::{
    AttentionMaps, AttentionShape, DefectiveRows, Error, HeadId, Measure, Measures, Progress,
    Warning, tell,
};

/// One pass over the heads of a file: their measures, a thumbnail of each, and warnings.
///
/// ```no_run
/// use regard_heads::{AttentionMaps, Measure, Survey, from_disk, unattended};
/// let maps = AttentionMaps::open(&from_disk, "bert.safetensors".as_ref(), None, &unattended)?;
/// let survey = Survey::new(&maps, &unattended)?;
/// for id in survey.sorted_by(Measure::Induction).into_iter().take(3) {
///     println!("{id}: {:?}", survey.measures(id).get(Measure::Induction));
/// }
/// # Ok::<(), regard_heads::Error>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Survey {
    shape: AttentionShape,
    factors: [usize; 2],
    causal: bool,
    measures: Vec<Measures>,
    /// Empty if the heads themselves are small enough.
    #[serde(with = "crate::packed::lists")]
    thumbnails: Vec<Vec<f32>>,
    warnings: Vec<Warning>,
}

/// The results of one pass over a head.
struct HeadSums {
    sums: Sums,
    thumbnail: Vec<f32>,
    /// The number of rows that contain NaN, that are not weights, and that do not sum to 1.
    odd: [usize; 3],
}

impl Survey {
    /// The maximum rows and columns of a thumbnail.
    pub const THUMBNAIL: usize = 96;

    /// Reads every weight once, on all threads.
    ///
    /// # Errors
    /// [`Error::Cancelled`] if `progress` cancels the work.
    pub fn new(maps: &AttentionMaps, progress: &Progress<'_>) -> Result<Self, Error> {
        let shape = maps.shape();
        let factors = factors([shape.queries, shape.keys], Self::THUMBNAIL);
        let tokens = maps.key_tokens().filter(|_| maps.is_self_attention());
        let earlier = tokens.map(|tokens| Earlier::new(tokens.iter().map(|t| t.raw.as_str())));
        let ids: Vec<HeadId> = shape.ids().collect();
        let done = AtomicUsize::new(0);
        let found: Vec<HeadSums> = ids
            .into_par_iter()
            .map(|id| {
                let found = measured(maps, id, factors, earlier.as_ref());
                tell(
                    progress,
                    done.fetch_add(1, Ordering::Relaxed) + 1,
                    shape.layers * shape.heads,
                )?;
                Ok(found)
            })
            .collect::<Result<_, Error>>()?;
        let causal = maps.is_self_attention() && !found.iter().any(|f| f.sums.sees_later);
        Ok(Self {
            shape,
            factors,
            causal,
            warnings: warnings(maps, &found),
            measures: found.iter().map(|f| f.sums.finish(causal)).collect(),
            thumbnails: found.into_iter().map(|f| f.thumbnail).collect(),
        })
    }

    /// The measures of a head. All are missing if there is no such head.
    pub fn measures(&self, id: HeadId) -> Measures {
        self.shape.index(id).and_then(|i| self.measures.get(i)).copied().unwrap_or_default()
    }

    /// The heads sorted by a measure, the largest value first. Heads whose value is not significant
    /// ([`Measures::is_significant`]) come after the significant ones, and heads without the measure come last. Ties keep
    /// the order of the file.
    pub fn sorted_by(&self, measure: Measure) -> Vec<HeadId> {
        let mut ids: Vec<HeadId> = self.shape.ids().collect();
        let value = |id: &HeadId| {
            let measures = self.measures(*id);
            let value = measures.get(measure).unwrap_or(f32::NEG_INFINITY);
            (measures.is_significant(measure), value)
        };
        ids.sort_by(|a, b| {
            let ((a_first, a), (b_first, b)) = (value(a), value(b));
            b_first.cmp(&a_first).then(b.total_cmp(&a))
        });
        ids
    }

    /// The thumbnail of a head: the largest weight of each rectangle of [`factors`](Self::factors), row by row. It has
    /// ⌈queries / rows⌉ × ⌈keys / columns⌉ numbers, and none if there is no such head.
    pub fn thumbnail<'a>(&'a self, maps: &'a AttentionMaps, id: HeadId) -> Cow<'a, [f32]> {
        match self.shape.index(id).and_then(|i| self.thumbnails.get(i)) {
            Some(thumbnail) if self.factors != [1, 1] => thumbnail.into(),
            _ => maps.head(id),
        }
    }

    /// The rows and the columns of the cells that one cell of a thumbnail stands for. Each side has its own factor, so that few
    /// queries of many keys keep their rows.
    pub fn factors(&self) -> [usize; 2] {
        self.factors
    }

    /// The rows and columns of a thumbnail.
    pub fn thumbnail_shape(&self) -> (usize, usize) {
        let [rows, cols] = self.factors;
        (self.shape.queries.div_ceil(rows), self.shape.keys.div_ceil(cols))
    }

    /// Whether no query of the file attends to a key after its own position.
    pub fn is_causal(&self) -> bool {
        self.causal
    }

    /// Defects of the file that affect the numbers.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }
}

fn measured(
    maps: &AttentionMaps,
    id: HeadId,
    factors: [usize; 2],
    earlier: Option<&Earlier>,
) -> HeadSums {
    let mut pool = (factors != [1, 1]).then(|| Pool::new(factors, maps.shape().keys));
    let mut sums = Sums::default();
    let mut odd = [0; 3];
    for query in 0..maps.shape().queries {
        let row = maps.row(id, query);
        match sums.add(&row, maps.is_self_attention().then_some(query), earlier) {
            Row::Distribution | Row::Hidden => {}
            Row::NotANumber => odd[0] += 1,
            Row::NotWeights => odd[1] += 1,
            Row::Unnormalised => odd[2] += 1,
        }
        if let Some(pool) = &mut pool {
            pool.add(&row);
        }
    }
    HeadSums { sums, thumbnail: pool.map_or_else(Vec::new, Pool::finish), odd }
}

fn warnings(maps: &AttentionMaps, found: &[HeadSums]) -> Vec<Warning> {
    let odd = |kind: usize| {
        let rows: usize = found.iter().map(|f| f.odd[kind]).sum();
        let mut heads = maps.shape().ids().zip(found).filter(|(_, f)| f.odd[kind] > 0);
        let (first, _) = heads.next()?;
        let first = format!("head {}", maps.name_of(first));
        Some(DefectiveRows { rows, heads: 1 + heads.count(), first })
    };
    [
        odd(0).map(Warning::NotANumber),
        odd(1).map(Warning::NotWeights),
        odd(2).map(Warning::NotADistribution),
        (maps.shape().keys == 1).then_some(Warning::OneKey),
    ]
    .into_iter()
    .flatten()
    .collect()
}
