use std::sync::Arc;

use crate::error::Error;
use crate::view::check_elements;
use crate::weight::{Panels, Weight};
use crate::{Element, Linear, Tensor};

/// A vector of features for each token of a vocabulary.
///
/// The table is kept once, in the type in which it was given and in the layout of a [`Linear`] layer's weight. The output head
/// of a model with tied embeddings ([`output_head`](Self::output_head)) shares it.
///
/// ```
/// use regard::Embedding;
/// let table = [1.0, 0.0, 0.0, 1.0, 0.5, 0.5]; // three tokens of two features
/// let embedding = Embedding::new(table, [3, 2])?;
/// let x = embedding.forward(&[2, 0])?;
/// assert_eq!(x, [0.5, 0.5, 1.0, 0.0]);
///
/// let logits = embedding.output_head().forward(x.sequences())?;
/// assert_eq!(logits, [0.5, 0.5, 0.5, 1.0, 0.0, 0.5]); // each token's dot products with the table's rows
/// # Ok::<(), regard::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Embedding {
    /// \[features, tokens\].
    weight: Arc<dyn Weight>,
    tokens: usize,
    features: usize,
}

impl Embedding {
    /// An embedding from `table` \[tokens, features\], row-major: as PyTorch's `nn.Embedding` stores it. `tokens` is the size of
    /// the vocabulary.
    ///
    /// # Errors
    /// [`Error::Elements`] if `table` has another number of elements, [`Error::Memory`] if the copy of it does not fit in memory.
    pub fn new<T: Element>(
        table: impl AsRef<[T]>,
        [tokens, features]: [usize; 2],
    ) -> Result<Self, Error> {
        let table = table.as_ref();
        check_elements("the embedding table", table.len(), &[tokens, features])?;
        let weight = Arc::new(Panels::from_columns(table, features, tokens)?);
        Ok(Self { weight, tokens, features })
    }

    /// The embedding whose output head is `head`, without its bias: a token is an output of the layer. It shares the layer's
    /// memory.
    ///
    /// ```
    /// use regard::{Embedding, Linear};
    /// let head = Linear::from_pytorch([1.0, 2.0, 3.0, 4.0], [2, 2])?;
    /// assert_eq!(Embedding::tied_to(&head).forward(&[1])?, [3.0, 4.0]);
    /// # Ok::<(), regard::Error>(())
    /// ```
    #[must_use]
    pub fn tied_to(head: &Linear) -> Self {
        Self { weight: head.weight(), tokens: head.outputs(), features: head.inputs() }
    }

    /// The size of the vocabulary.
    #[must_use]
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// The number of features of a token.
    #[must_use]
    pub fn features(&self) -> usize {
        self.features
    }

    /// The embeddings \[1, tokens, features\] of the tokens of one sequence. `ids` are the tokens' indices in the vocabulary.
    ///
    /// # Errors
    /// [`Error::Token`] if an id is not in the vocabulary.
    pub fn forward(&self, ids: &[u32]) -> Result<Tensor<3>, Error> {
        for (index, id) in ids.iter().enumerate() {
            if *id as usize >= self.tokens {
                return Err(Error::Token { index, id: *id, tokens: self.tokens });
            }
        }
        let mut out = Tensor::zeros("the embeddings", [1, ids.len(), self.features])?;
        for (id, row) in ids.iter().zip(out.as_mut_slice().chunks_exact_mut(self.features.max(1))) {
            self.weight.column(*id as usize, row);
        }
        Ok(out)
    }

    /// The output head that is tied to this embedding: a layer without bias whose outputs are the logits of the vocabulary's
    /// tokens, the dot products of x with their embeddings (Press and Wolf 2017). It shares the table's memory.
    #[doc(alias = "tied")]
    #[doc(alias = "unembedding")]
    #[doc(alias = "lm_head")]
    #[must_use]
    pub fn output_head(&self) -> Linear {
        Linear::of(Arc::clone(&self.weight), self.features, self.tokens)
    }
}
