//! [`Objects`]: JSON in which what is to be an object has to be one.
//!
//! What serde derives for a struct takes an array of the fields' values as well, in the order in
//! which they happen to be declared. Nobody writes that but by mistake.

use std::fmt;

use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, VariantAccess, Visitor,
};

/// Reads as `D` does, and refuses an array where a struct is asked for, however deep.
pub struct Objects<D>(pub D);

/// Passes on what is found, but for arrays where they are refused.
struct Seen<V> {
    visitor: V,
    takes_arrays: bool,
}

macro_rules! reading {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.0.$method(Seen { visitor, takes_arrays: true })
        }
    )*};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Objects<D> {
    type Error = D::Error;

    reading!(
        deserialize_any deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32
        deserialize_i64 deserialize_i128 deserialize_u8 deserialize_u16 deserialize_u32
        deserialize_u64 deserialize_u128 deserialize_f32 deserialize_f64 deserialize_char
        deserialize_str deserialize_string deserialize_bytes deserialize_byte_buf
        deserialize_option deserialize_unit deserialize_seq deserialize_map
        deserialize_identifier deserialize_ignored_any
    );

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let seen = Seen {
            visitor,
            takes_arrays: false,
        };
        self.0.deserialize_struct(name, fields, seen)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_enum(name, variants, passing(visitor))
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_unit_struct(name, passing(visitor))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_newtype_struct(name, passing(visitor))
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_tuple(length, passing(visitor))
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0
            .deserialize_tuple_struct(name, length, passing(visitor))
    }
}

fn passing<V>(visitor: V) -> Seen<V> {
    Seen {
        visitor,
        takes_arrays: true,
    }
}

macro_rules! seeing {
    ($($method:ident: $value:ty),* $(,)?) => {$(
        fn $method<E: Error>(self, value: $value) -> Result<V::Value, E> {
            self.visitor.$method(value)
        }
    )*};
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Seen<V> {
    type Value = V::Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(formatter)
    }

    seeing!(
        visit_bool: bool, visit_i64: i64, visit_i128: i128, visit_u64: u64, visit_u128: u128,
        visit_f64: f64, visit_str: &str, visit_borrowed_str: &'de str, visit_string: String,
        visit_bytes: &[u8], visit_borrowed_bytes: &'de [u8], visit_byte_buf: Vec<u8>,
    );

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.visitor.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.visitor.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, found: D) -> Result<V::Value, D::Error> {
        self.visitor.visit_some(Objects(found))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, found: D) -> Result<V::Value, D::Error> {
        self.visitor.visit_newtype_struct(Objects(found))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, found: A) -> Result<V::Value, A::Error> {
        match self.takes_arrays {
            true => self.visitor.visit_seq(Objects(found)),
            false => Err(Error::custom("an array; allowed: an object")),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, found: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_map(Objects(found))
    }

    fn visit_enum<A: EnumAccess<'de>>(self, found: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_enum(Objects(found))
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Objects<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(Objects(from))
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Objects<A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        self.0.next_element_seed(Objects(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Objects<A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        self.0.next_key_seed(seed)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.0.next_value_seed(Objects(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, A: EnumAccess<'de>> EnumAccess<'de> for Objects<A> {
    type Error = A::Error;
    type Variant = Objects<A::Variant>;

    fn variant_seed<S: DeserializeSeed<'de>>(
        self,
        seed: S,
    ) -> Result<(S::Value, Objects<A::Variant>), A::Error> {
        let (value, variant) = self.0.variant_seed(seed)?;
        Ok((value, Objects(variant)))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Objects<A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.0.unit_variant()
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, A::Error> {
        self.0.newtype_variant_seed(Objects(seed))
    }

    fn tuple_variant<V: Visitor<'de>>(
        self,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        self.0.tuple_variant(length, passing(visitor))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        let seen = Seen {
            visitor,
            takes_arrays: false,
        };
        self.0.struct_variant(fields, seen)
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Inner {
        #[serde(default)]
        size: u32,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    enum Choice {
        Plain,
        Struct { inner: Inner },
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Outer {
        one: Inner,
        maybe: Option<Inner>,
        many: Vec<Inner>,
        pair: (u8, Inner),
        choice: Choice,
    }

    fn read(one: &str, maybe: &str, item: &str, choice: &str) -> Result<Outer, String> {
        let text = format!(
            r#"{{"one":{one},"maybe":{maybe},"many":[{item}],"pair":[7,{item}],"choice":{choice}}}"#
        );
        let mut json = serde_json::Deserializer::from_str(&text);
        let read = serde_path_to_error::deserialize(Objects(&mut json));
        read.map_err(|error| format!("{}: {}", error.path(), error.inner()))
    }

    #[test]
    fn objects_are_taken_and_arrays_in_their_place_refused_where_they_are() {
        let object = r#"{"size":3}"#;
        let both = r#"{"Struct":{"inner":{"size":3}}}"#;
        let outer = read(object, object, object, both).unwrap();
        assert_eq!(
            outer.choice,
            Choice::Struct {
                inner: Inner { size: 3 }
            }
        );
        assert_eq!(
            (outer.many.len(), outer.pair.0, outer.pair.1.size),
            (1, 7, 3)
        );
        assert_eq!(read("{}", "null", "{}", r#""Plain""#).unwrap().maybe, None);
        for (at, refused) in [
            ("one", read("[3]", "null", object, both)),
            ("one", read("[]", "null", object, both)),
            ("maybe", read(object, "[3]", object, both)),
            ("many[0]", read(object, object, "[3]", both)),
            (
                "choice",
                read(object, object, object, r#"{"Struct":[{"size":3}]}"#),
            ),
            (
                "choice.Struct.inner",
                read(object, object, object, r#"{"Struct":{"inner":[3]}}"#),
            ),
        ] {
            let message = refused.unwrap_err();
            assert!(
                message.starts_with(at) && message.contains("an array; allowed: an object"),
                "{at}: {message}"
            );
        }
    }
}
