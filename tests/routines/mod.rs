//! The solvers' routines as call sites, on CPU devices and on emulated devices.

pub mod cholesky;
pub mod condition;
pub mod eigen;
pub mod eigenvectors;
pub mod every;
pub mod functions;
pub mod inverse;
pub mod lu;
pub mod norm;
pub mod not_finite;
pub mod qr;
pub mod read_only;
pub mod thin;
pub mod tsqr;

/// A test for each function, at a place. Where matrices may have any type, one for each named type.
macro_rules! every_routine {
    ($at:expr; $($name:ident $scalar:ty),*) => {
        $(mod $name {
            $crate::routines::every_routine! { $at, ::<$scalar>,
                cholesky::cholesky_in_every_storage lu::lu_in_every_storage
                inverse::inverses_in_every_storage condition::conditions_in_every_storage
                read_only::triangular_systems read_only::residuals
                read_only::residuals_of_many_columns norm::norms_in_every_storage
                norm::norms_of_rectangles_on_grids
                tsqr::least_squares_of_tall_matrices tsqr::ridge_terms tsqr::parts_of_tall_matrices
                eigen::eigenvalues_in_every_storage eigen::eigenvalues_of_larger_matrices
                eigenvectors::eigenvectors_in_every_storage
                eigenvectors::eigenvectors_of_larger_matrices eigenvectors::some_eigenvectors
                functions::functions_in_every_storage functions::functions_of_larger_matrices
                qr::factors_in_every_storage thin::thin_q_and_r_by_rows
                every::routines_of_the_table
                not_finite::lu_of_what_is_not_finite not_finite::cholesky_of_what_is_not_finite
            }
        })*
    };
    ($at:expr) => {
        f64_and_c64! { $crate::routines::every_routine! { $at; f64 f64, c64 faer::c32 } }
        f32_and_c128! { $crate::routines::every_routine! { $at; f32 f32, c128 faer::c64 } }
        $crate::routines::every_routine! { $at; f64_only }
    };
    ($at:expr; f64_only) => {
        mod f64_only {
            $crate::routines::every_routine! { $at,
                lu::singular_matrices_have_no_solution_but_a_factor_and_a_determinant
                lu::determinants_at_the_ends_of_the_range
                inverse::where_there_is_no_inverse_all_is_nan_and_info_says_why
                condition::what_is_singular_or_no_number
                condition::moduli_at_the_ends_of_the_range
                norm::norms_at_the_ends_of_the_range norm::norms_of_what_is_no_number
                qr::hard_matrices
                eigen::eigenvalues_of_hard_matrices eigen::eigenvalues_at_the_ends_of_the_range
                eigen::eigenvalues_of_what_is_no_number
                eigenvectors::eigenvectors_of_hard_matrices
                eigenvectors::eigenvectors_of_what_is_no_number
                functions::functions_without_a_value
                tsqr::columns_that_depend_on_others tsqr::rows_of_reduced_matrices
                thin::thin_factors_of_hard_matrices
            }
        }
    };
    ($at:expr, ::<$scalar:ty>, $($module:ident::$function:ident)*) => {$(
        #[test]
        fn $function() {
            crate::routines::$module::$function::<$scalar>($at);
        }
    )*};
    ($at:expr, $($module:ident::$function:ident)*) => {$(
        #[test]
        fn $function() {
            crate::routines::$module::$function($at);
        }
    )*};
}
pub(crate) use every_routine;
